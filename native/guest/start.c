/* The entry point of each guest program, and the <string.h> functions that they and the compiler use. */
#include "start.h"

#include "sys.h"

#include <string.h>

__asm__(".globl _start\n"
        ".type _start, @function\n"
        "_start:\n"
        "    xor %ebp, %ebp\n"
        "    mov %rsp, %rdi\n"
        "    and $-16, %rsp\n"
        "    call start_with_stack\n");

/* The initial stack (System V ABI, AMD64 supplement 3.4.1): argc, argv…, NULL, environment…, NULL, auxv. */
_Noreturn void start_with_stack(long *stack);
_Noreturn void start_with_stack(long *stack) {
    char **argv = (char **)(stack + 1);
    sys_exit(guest_main(argv, argv + *stack + 1));
}

void *memcpy(void *restrict to, const void *restrict from, size_t size) {
    void *result = to;
    __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(size) : : "memory");
    return result;
}

void *memset(void *to, int byte, size_t size) {
    void *result = to;
    __asm__ volatile("rep stosb" : "+D"(to), "+c"(size) : "a"(byte) : "memory");
    return result;
}

int memcmp(const void *a, const void *b, size_t size) {
    const unsigned char *left = a, *right = b;
    for (; size > 0; size--, left++, right++) {
        if (*left != *right) {
            return *left - *right;
        }
    }
    return 0;
}

size_t strlen(const char *text) {
    size_t length = 0;
    while (text[length]) {
        length++;
    }
    return length;
}

int strcmp(const char *a, const char *b) {
    while (*a && *a == *b) {
        a++;
        b++;
    }
    return (unsigned char)*a - (unsigned char)*b;
}

int strncmp(const char *a, const char *b, size_t size) {
    for (; size > 0; size--, a++, b++) {
        if (*a != *b || !*a) {
            return (unsigned char)*a - (unsigned char)*b;
        }
    }
    return 0;
}

char *strchr(const char *text, int byte) {
    for (; *text != (char)byte; text++) {
        if (!*text) {
            return NULL;
        }
    }
    return (char *)(uintptr_t)text;
}
