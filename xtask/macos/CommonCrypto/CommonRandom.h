// What mimalloc uses of this header of macOS, which zig has not.
#include <stddef.h>

CCCryptorStatus CCRandomGenerateBytes(void *bytes, size_t count);
