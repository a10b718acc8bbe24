// Keeps a file open until its input ends, and lets nobody delete it: hold FILE.
#include <stdio.h>
#include <windows.h>

int main(int count, char** words)
{
    if (count != 2) return 2;
    HANDLE file = CreateFileA(words[1], GENERIC_READ, FILE_SHARE_READ | FILE_SHARE_WRITE, NULL, OPEN_EXISTING, 0, NULL);
    if (file == INVALID_HANDLE_VALUE) return 1;
    puts("open");
    fflush(stdout);
    while (getchar() != EOF) {}
    return CloseHandle(file) ? 0 : 1;
}
