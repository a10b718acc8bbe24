// Keeps a file open until its input ends: hold share|keep FILE.
#include <stdio.h>
#include <string.h>
#include <windows.h>

int main(int count, char** words)
{
    if (count != 3) return 2;
    DWORD share = FILE_SHARE_READ | FILE_SHARE_WRITE | (strcmp(words[1], "share") ? 0 : FILE_SHARE_DELETE);
    HANDLE file = CreateFileA(words[2], GENERIC_READ, share, NULL, OPEN_EXISTING, 0, NULL);
    if (file == INVALID_HANDLE_VALUE) return 1;
    puts("open");
    fflush(stdout);
    while (getchar() != EOF) {}
    return CloseHandle(file) ? 0 : 1;
}
