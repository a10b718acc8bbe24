// What mimalloc uses of this header of macOS, which zig lacks.
#include <stdint.h>

typedef int32_t CCCryptorStatus;
enum { kCCSuccess = 0 };
