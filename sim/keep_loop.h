/* keep_loop.h - a word before a short loop of fixed length that is to become vector code. gcc unrolls such a loop before it
 * looks for vectors, and then finds none. */
#ifndef ATTNLAB_KEEP_LOOP_H
#define ATTNLAB_KEEP_LOOP_H

#if defined(__GNUC__) && !defined(__clang__)
#define KEEP_LOOP _Pragma("GCC unroll 1")
#else
#define KEEP_LOOP
#endif

#endif
