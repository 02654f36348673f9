"""The certified rows of agreement as learners: with a curator one of ``learn``, without one a protocol.

*Certified* rows run the stable learner with the certified parameters (a race's ``Gamma``, a ``grid``), rows on the
assumption that nine in ten people agree run the task as it was given.  Devices of the protocols speak from as many
records on as the plan is for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from privpac.agreement.tasks import Task
from privpac.bounds.agreement.plurality import CLEAR
from privpac.bounds.certificate import Certificate
from privpac.data import Domain, Integers
from privpac.errors import ParameterError
from privpac.guarantee import Model
from privpac.learners.agreement.classes import AgreedRules
from privpac.learners.agreement.learner import AgreementLearner
from privpac.learners.settings import written
from privpac.planning.targets.agreement_users import width_of_reports
from privpac.planning.targets.certified_runs import CertifiedRun, feature_words, learn_words, option_words
from privpac.protocols.protocol import LocalProtocol, Protocol, ShuffleProtocol

if TYPE_CHECKING:
    from privpac.planning.targets.agreement_targets import AgreementTarget

__all__ = ["agreement_run"]


def agreement_run(
    target: AgreementTarget, task: Task, m: int, certificate: Certificate, n_users: int | None
) -> CertifiedRun:
    """The run of a certified row by one task, for ``n_users`` where they are known: a shuffled run admits them all, and
    all of them make the noise."""
    given, columns = dict(task.parameters), _columns(target)
    source = ["--rule", task.kind, *feature_words(columns)]
    if target.model is Model.CENTRAL:
        told: dict[str, Any] = (
            {"beta": CLEAR} | ({"delta": target.delta} if target.delta else {}) | ({"task": given} if given else {})
        )
        concept = AgreedRules(task.kind, columns) if target.concept is None else target.concept

        def learn() -> AgreementLearner:
            return AgreementLearner(concept, target.epsilon, neighbours=target.neighbours, **told)

        words = learn_words(source, target.epsilon, target.neighbours, "agreement", told)
        return CertifiedRun("agreement", certificate.n_users, told, learn, lambda: words)
    shape: dict[str, Any] = {"width": width_of_reports(task.learner.universe.bits)}
    epsilon = target.epsilon
    if target.model is Model.SHUFFLE:
        if n_users is not None:
            certificate = target.shuffled(n_users)
            if certificate.n_users is None or certificate.n_users > n_users:
                raise ParameterError(
                    f"a run that lets {n_users} clients take part certifies nothing at this epsilon; plan for a larger "
                    "one"
                )
        # The certificate may be that of a smaller epsilon, which promises more.
        epsilon, most = certificate["epsilon"], certificate["n_max"]
        shape = {
            "delta": target.delta,
            "n_min": n_users or certificate.n_users,
            "n_max": most,
            "width": certificate["width"],
        }
    kind: type[Any] = LocalProtocol if target.model is Model.LOCAL else ShuffleProtocol
    usual: int = LocalProtocol(task.kind, columns, target.epsilon, task=given).min_records or 1
    shape |= {"min_records": min(m, usual), "beta": CLEAR}

    def build() -> Protocol:
        run: Protocol = kind(task.kind, columns, epsilon, task=given, **shape)
        return run

    def command() -> list[str]:
        new = [
            "protocol",
            "new",
            "RUN.json",
            "--model",
            str(target.model),
            *source,
            "--label",
            "LABEL",
            "--epsilon",
            written(epsilon),
        ]
        if target.model is Model.SHUFFLE:  # a shuffled run is sealed: privpac protocol keys ANALYZER
            new += ["--key", "ANALYZER.pub"]
        new += ["--sign", "COORDINATOR.key"]  # privpac protocol keys COORDINATOR --coordinator
        return [
            *new,
            *option_words(shape),
            *(word for name, value in given.items() for word in ("--set", f"{name}={value}")),
        ]

    return CertifiedRun(
        f"{target.model} protocol", certificate.n_users, shape | ({"task": given} if given else {}), build, command
    )


def _columns(target: AgreementTarget) -> Mapping[str, Domain]:
    """The columns of the class, or invented ones of the right sizes."""
    if target.concept is None:
        return {f"x{i}": Integers(0, size - 1) for i, size in enumerate(target.task.sizes)}
    return {name or "x": domain for name, domain in target.concept.declared().items() if domain is not None}
