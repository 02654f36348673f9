"""Compile the loops of privpac ahead of time: ``python kernels/compile.py``, or list more types of arguments first:
``python kernels/compile.py --add FILE``.

Every function under ``@jit`` that Python calls is compiled by numba for the argument types in ``signatures.json``, and
all of them are linked into one shared library beside ``privpac/data/loops.py``, which calls it without numba: an
installed privpac neither needs a compiler of 200 MB nor waits for one.  The loops are read from the source by name, so
that building needs numpy and numba and none of the packages which the modules around the loops import.

An argument is written as ``i8`` (number), ``u8[1C]`` (array: type, axes, C for contiguous or A for any layout) or
``(i8,u1[2C])`` (tuple); what comes back likewise.
"""

from __future__ import annotations

import ast
import builtins
import hashlib
import importlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, ClassVar

HERE = Path(__file__).parent
PACKAGE = HERE.parent / "src" / "privpac"
SIGNATURES = HERE / "signatures.json"
#: Intel from 2013, AMD from 2015 on, as polars wants it (privpac/data/loops.py looks first); the same bits as on other
#: processors, for no loop allows contraction.
CPU = {"x86_64": "x86-64-v3", "AMD64": "x86-64-v3"}.get(platform.machine(), "generic")


class Module:
    """The loops of one source file, and what they refer to, without running the rest of it."""

    known: ClassVar[dict[str, Module]] = {}

    def __init__(self, root: Path, name: str) -> None:
        self.root = root
        path = root.joinpath(*name.split(".")[1:])
        self.path = path.with_suffix(".py") if path.with_suffix(".py").exists() else path / "__init__.py"
        source = self.path.read_bytes()
        self.files = {
            self.path.relative_to(root).as_posix(): hashlib.sha256(source).hexdigest()
        }  # what decides the code
        self.values: dict[str, Any] = {"__builtins__": builtins, "__name__": name}
        self.homes: dict[str, ast.stmt] = {}
        self.body = ast.parse(source).body
        for node in self.body:
            for bound in _names_bound(node):
                self.homes[bound] = node

    @classmethod
    def at(cls, root: Path, name: str) -> Module:
        if name not in cls.known:
            cls.known[name] = cls(root, name)
        return cls.known[name]

    @property
    def kernels(self) -> list[str]:
        return [name for name, node in self.homes.items() if _is_kernel(node)]

    def value(self, name: str) -> Any:
        """What a name of the module stands for: a constant, an import, or a loop ready to compile."""
        if name in self.values:
            return self.values[name]
        node = self.homes[name]
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("privpac"):
            there = next(alias.name for alias in node.names if (alias.asname or alias.name) == name)
            home = Module.at(self.root, node.module or "")
            self.values[name] = home.value(there)
            self.files |= home.files
            return self.values[name]
        for wanted in _names_used(node):
            if wanted in self.homes and wanted != name:
                self.value(wanted)
        if isinstance(node, ast.FunctionDef):
            self._run(_bare(node))
            numba = importlib.import_module("numba")
            compile_it = numba.njit(nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)
            self.values[name] = compile_it(self.values[name])
        else:
            self._run(node)
        return self.values[name]

    def _run(self, node: ast.stmt) -> None:
        exec(compile(ast.Module([node], []), str(self.path), "exec"), self.values)


def _names_bound(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return [node.name]
    if isinstance(node, ast.Import | ast.ImportFrom):
        return [alias.asname or alias.name.split(".")[0] for alias in node.names]
    # what a comprehension counts with is no name of the module
    inner = {id(child) for made in ast.walk(node) if isinstance(made, ast.comprehension) for child in ast.walk(made)}
    stored = (child for child in ast.walk(node) if isinstance(child, ast.Name) and isinstance(child.ctx, ast.Store))
    return [child.id for child in stored if id(child) not in inner]


def _names_used(node: ast.AST) -> list[str]:
    bare = _bare(node) if isinstance(node, ast.FunctionDef) else node
    return [child.id for child in ast.walk(bare) if isinstance(child, ast.Name) and isinstance(child.ctx, ast.Load)]


def _is_kernel(node: ast.AST) -> bool:
    return isinstance(node, ast.FunctionDef) and any(
        isinstance(mark, ast.Name) and mark.id == "jit" for mark in node.decorator_list
    )


def _bare(node: ast.FunctionDef) -> ast.FunctionDef:
    """The function without decorators and annotations, which only readers need."""
    node = ast.parse(ast.unparse(node)).body[0]  # type: ignore[assignment]
    node.decorator_list, node.returns = [], None
    for argument in [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]:
        argument.annotation = None
    return node


def called_from_python(package: Path) -> list[str]:
    """The loops that code outside of loops mentions, as ``module:name``."""
    names = {".".join(("privpac", *path.relative_to(package).with_suffix("").parts)) for path in package.rglob("*.py")}
    modules = {name.removesuffix(".__init__"): Module.at(package, name.removesuffix(".__init__")) for name in names}
    kernels = {f"{name}:{kernel}" for name, module in modules.items() for kernel in module.kernels}
    found: set[str] = set()
    for name, module in modules.items():
        for node in module.body:
            if isinstance(node, ast.Import | ast.ImportFrom) or (
                isinstance(node, ast.FunctionDef) and _is_kernel(node)
            ):
                continue
            for used in set(_names_used(node)):
                home = module.homes.get(used)
                if isinstance(home, ast.ImportFrom):
                    there = next(alias.name for alias in home.names if (alias.asname or alias.name) == used)
                    found.add(f"{home.module}:{there}")
                else:
                    found.add(f"{name}:{used}")
    return sorted(found & kernels)


# Types


def split(text: str) -> list[str]:
    """The parts of a list of types, at commas outside brackets.

    >>> split("i8,(u1[2C],f8),b1")
    ['i8', '(u1[2C],f8)', 'b1']
    """
    parts, depth = [""], 0
    for letter in text:
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part for part in parts if part]


def to_type(text: str) -> Any:
    """numba's type for a written one."""
    numba = importlib.import_module("numba")
    numpy = importlib.import_module("numpy")
    if text.startswith("("):
        return numba.types.Tuple([to_type(part) for part in split(text[1:-1])])
    found = re.fullmatch(r"([a-z]\d+)(?:\[(\d)([CA])\])?", text)
    if not found:
        raise SystemExit(f"{SIGNATURES.name}: {text!r} is no type; they read i8, u8[1C] or (i8,u1[2C])")
    scalar = numba.from_dtype(numpy.dtype(found[1]))
    return numba.types.Array(scalar, int(found[2]), found[3]) if found[2] else scalar


def to_text(kind: Any) -> str:
    """The written form of numba's type of a result."""
    numba = importlib.import_module("numba")
    if isinstance(kind, numba.types.BaseTuple):
        return "(" + ",".join(to_text(part) for part in kind) + ")"
    if isinstance(kind, numba.types.Array):
        return f"{to_text(kind.dtype)}[{kind.ndim}{kind.layout}]"
    if isinstance(kind, numba.types.NoneType):
        return ""
    if isinstance(kind, numba.types.Literal):
        return to_text(kind.literal_type)
    return importlib.import_module("numba.np.numpy_support").as_dtype(kind).str[1:]  # type: ignore[no-any-return]


# Code


def _entry(symbol: str, inner: Any) -> str:
    """A function of three pointers (arguments in slots of eight bytes, room for the result, room for what went wrong)
    that calls one of numba's, whose arguments come one by one."""
    kinds = [str(argument.type) for argument in inner.arguments]
    loads = [
        f"  %p{i} = getelementptr i64, ptr %slots, i64 {i}\n  %v{i} = load {kind}, ptr %p{i}"
        for i, kind in enumerate(kinds[2:])
    ]
    given = "".join(f", {kind} %v{i}" for i, kind in enumerate(kinds[2:]))
    return "\n".join(
        [
            f"declare i32 @{symbol}_(" + ", ".join(kinds) + ")",
            f"define i32 @{symbol}(ptr %slots, ptr %result, ptr %wrong) {{",
            *loads,
            f"  %r = call i32 @{symbol}_(ptr %result, ptr %wrong{given})\n  ret i32 %r\n}}",
        ]
    )


def compile_kernels(package: Path) -> tuple[bytes, dict[str, Any]]:
    """The object code of all kernels that Python calls, and the index by which they are found."""
    llvm = importlib.import_module("llvmlite.binding")
    wanted: dict[str, list[str]] = json.loads(SIGNATURES.read_text())
    whole: Any = None
    count = 0
    index: dict[str, Any] = {}
    for place, calls in wanted.items():
        home, name = place.split(":")
        module = Module.at(package, home)
        if name not in module.kernels:
            raise SystemExit(f"{SIGNATURES.name} names {place}, which is not there any more: leave it out")
        entries: dict[str, list[str]] = {}
        for call in calls:
            signature = tuple(to_type(part) for part in split(call))
            dispatcher = importlib.import_module("numba").njit(
                nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True
            )(module.value(name).py_func)
            dispatcher.compile(signature)
            (compiled,) = dispatcher.overloads.values()
            symbol = f"k{count}"
            part = llvm.parse_assembly(compiled.library.get_llvm_str())
            inner = part.get_function(compiled.fndesc.llvm_func_name)
            inner.name = symbol + "_"
            for value in [*part.functions, *part.global_variables]:
                if not value.is_declaration and value.name != inner.name:
                    value.linkage = "internal"
            entry = _entry(symbol, inner)
            part.link_in(llvm.parse_assembly(entry))
            inner = part.get_function(symbol + "_")
            inner.linkage = "internal"
            if whole is None:
                whole = part
            else:
                whole.link_in(part)
            entries[call] = [symbol, to_text(compiled.signature.return_type)]
            count += 1
        index[place] = {"files": sorted(module.files), "calls": entries}
    whole.verify()
    digests = {file: digest for module in Module.known.values() for file, digest in module.files.items()}
    return _object_code(llvm, whole), {"files": digests, "kernels": index}


def _object_code(llvm: Any, whole: Any) -> bytes:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine(cpu=CPU, opt=3, reloc="pic", codemodel="default")
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=1))
    passes = llvm.create_new_module_pass_manager()
    passes.add_global_dead_code_eliminate_pass()
    passes.run(whole, builder)
    code: bytes = machine.emit_object(whole)
    return code


def has_compiler() -> str | None:
    """The machine's C compiler, if it has one."""
    return next((name for name in (os.environ.get("CC"), "cc", "gcc", "clang") if name and shutil.which(name)), None)


def c_compiler() -> list[str]:
    """The machine's C compiler, or the one in the wheel ``ziglang``."""
    found = has_compiler()
    return [found] if found else [sys.executable, "-m", "ziglang", "cc"]


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else ""


def _recipe() -> str:
    """What besides the loops decides the library."""
    version = importlib.import_module("numba").__version__
    parts = [CPU, version, *(_digest(path) for path in (Path(__file__), HERE / "runtime.c", SIGNATURES))]
    return hashlib.sha256(" ".join(parts).encode()).hexdigest()


def build(package: Path) -> list[Path]:
    """Write the library and its index beside ``loops.py``, unless they are there already; returns both paths."""
    library, listing = package / "data" / "_kernels.so", package / "data" / "_kernels.json"
    os.environ["NUMBA_CPU_NAME"], os.environ["NUMBA_CPU_FEATURES"] = CPU, ""  # before numba is loaded
    recipe = _recipe()
    if library.exists() and listing.exists():
        there = json.loads(listing.read_text(encoding="utf-8"))
        if there.get("recipe") == recipe and all(_digest(package / file) == it for file, it in there["files"].items()):
            return [library, listing]
    code, index = compile_kernels(package)
    with tempfile.TemporaryDirectory() as room:
        objects, linked = Path(room, "kernels.o"), Path(room, "kernels.so")
        objects.write_bytes(code)
        runtime = str(HERE / "runtime.c")
        command = [*c_compiler(), "-O2", "-s", "-shared", "-fPIC", "-o", str(linked), runtime, str(objects), "-lm"]
        subprocess.run([*command, "-Wl,-z,defs"], check=True)
        os.replace(shutil.copy(linked, library.with_suffix(".new")), library)
    index["recipe"] = recipe
    listing.write_text(json.dumps(index, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    return [library, listing]


def fits(place: str, call: str) -> bool:
    """Whether a loop still has as many arguments."""
    home, name = place.split(":")
    node = Module.at(PACKAGE, home).homes[name]
    return isinstance(node, ast.FunctionDef) and len(node.args.args) == len(split(call))


def add(calls: Path) -> None:
    """List what was written down (``PRIVPAC_KERNELS=>FILE``), of loops that are still there."""
    listed: dict[str, list[str]] = json.loads(SIGNATURES.read_text())
    wanted = called_from_python(PACKAGE)
    for line in calls.read_text().splitlines():
        place, _, kinds = line.partition(" ")
        listed[place] = sorted({kinds, *listed.get(place, [])})
    kept = {
        place: [call for call in kinds if fits(place, call)]
        for place, kinds in sorted(listed.items())
        if place in wanted
    }
    SIGNATURES.write_text(json.dumps(kept, indent=1) + "\n")


if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[1] == "--add":
        add(Path(sys.argv[2]))
    else:
        for made in build(PACKAGE):
            print(made)
