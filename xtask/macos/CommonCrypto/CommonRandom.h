// What mimalloc uses of this header of macOS, which zig lacks.
#include <stddef.h>

CCCryptorStatus CCRandomGenerateBytes(void *bytes, size_t count);
