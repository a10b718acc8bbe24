/* A plugin of qemu that counts the instructions that a program has run, and appends the number to the file
 * of the environment variable INSTRUCTIONS at each call of getppid.
 *
 * The declarations are those of version 1 of the interface of plugins. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define EXPORT __attribute__((visibility("default")))

/* The number of the system call on ARM64, and of the operation that adds. */
enum { GETPPID = 173, ADD = 0 };

struct qemu_plugin_tb;
struct qemu_info_t;

size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *block);
void qemu_plugin_register_vcpu_tb_trans_cb(uint64_t id, void (*call)(uint64_t, struct qemu_plugin_tb *));
void qemu_plugin_register_vcpu_tb_exec_inline(struct qemu_plugin_tb *block, int operation, void *sum, uint64_t amount);
void qemu_plugin_register_vcpu_syscall_cb(
    uint64_t id,
    void (*call)(uint64_t, unsigned, int64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t));

EXPORT int qemu_plugin_version = 1;

static uint64_t count;
static FILE *out;

static void on_block(uint64_t id, struct qemu_plugin_tb *block) {
    (void)id;
    qemu_plugin_register_vcpu_tb_exec_inline(block, ADD, &count, qemu_plugin_tb_n_insns(block));
}

static void on_call(
    uint64_t id, unsigned cpu, int64_t number, uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e, uint64_t f,
    uint64_t g, uint64_t h) {
    (void)id, (void)cpu, (void)a, (void)b, (void)c, (void)d, (void)e, (void)f, (void)g, (void)h;
    if (number == GETPPID) {
        fprintf(out, "%llu\n", (unsigned long long)count);
        fflush(out);
    }
}

EXPORT int qemu_plugin_install(uint64_t id, const struct qemu_info_t *info, int argc, char **argv) {
    (void)info, (void)argc, (void)argv;
    const char *path = getenv("INSTRUCTIONS");
    out = path ? fopen(path, "w") : NULL;
    if (!out)
        return 1;
    qemu_plugin_register_vcpu_tb_trans_cb(id, on_block);
    qemu_plugin_register_vcpu_syscall_cb(id, on_call);
    return 0;
}
