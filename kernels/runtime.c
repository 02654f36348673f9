/* What compiled kernels ask of the world besides libc: counted blocks of memory, laid out as numba's code expects them.
 *
 * A block is alive while its count is positive; the generated code counts up and down by itself and calls
 * NRT_MemInfo_call_dtor at zero.  privpac_release is for Python, which owns what a kernel returns.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

typedef void (*Destructor)(void *data, size_t size, void *info);

typedef struct {
    size_t count;
    Destructor destructor;
    void *info;
    void *data;
    size_t size;
    void *allocator;
} Block;

void *NRT_Allocate(size_t size) { return malloc(size ? size : 1); }

void NRT_Free(void *pointer) { free(pointer); }

static Block *begin(size_t extra, size_t size) {
    Block *block = extra > SIZE_MAX - sizeof(Block) ? NULL : malloc(sizeof(Block) + extra);
    if (block) *block = (Block){1, NULL, NULL, (char *)block + sizeof(Block), size, NULL};
    return block;
}

Block *NRT_MemInfo_alloc(size_t size) { return begin(size, size); }

Block *NRT_MemInfo_alloc_aligned(size_t size, unsigned align) {
    Block *block = size > SIZE_MAX - align ? NULL : begin(size + align, size);
    if (block) block->data = (void *)(((uintptr_t)block->data + align - 1) / align * align);
    return block;
}

static void free_data(void *data, size_t size, void *info) {
    (void)size;
    if (info) ((void (*)(void *))info)(data);
    free(data);
}

/* A block whose data may grow: lists. */
Block *NRT_MemInfo_new_varsize_dtor(size_t size, Destructor of_elements) {
    Block *block = begin(0, size);
    if (!block) return NULL;
    block->data = NRT_Allocate(size);
    if (!block->data) {
        free(block);
        return NULL;
    }
    block->destructor = free_data;
    block->info = (void *)of_elements;
    return block;
}

void *NRT_MemInfo_varsize_realloc(Block *block, size_t size) {
    void *data = realloc(block->data, size ? size : 1);
    if (!data) return NULL;
    block->data = data;
    block->size = size;
    return data;
}

void NRT_MemInfo_call_dtor(Block *block) {
    if (block->destructor) block->destructor(block->data, block->size, block->info);
    free(block);
}

void privpac_release(Block *block) {
    if (__atomic_sub_fetch(&block->count, 1, __ATOMIC_ACQ_REL) == 0) NRT_MemInfo_call_dtor(block);
}
