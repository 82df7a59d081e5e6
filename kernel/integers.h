/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The integers of the generated code and their methods, with the meaning that they have in Rust. Of 128 bits there are sums,
 * differences, comparisons and shifts by a fixed number, which the compiler makes of 64; BPF has no product and quotient.
 */
#ifndef TWIN_INTEGERS_H
#define TWIN_INTEGERS_H

#ifndef __bpf__
#include <stdbool.h>
#include <stdint.h>
typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int16_t s16;
typedef int32_t s32;
typedef int64_t s64;
#endif

__extension__ typedef unsigned __int128 u128;

#define TWIN_INLINE static inline __attribute__((always_inline, unused))

/* What is too large to be compiled anew at every call. */
#define TWIN_FUNCTION static __attribute__((noinline, unused))

/*
 * The same, read by the kernel's verifier once and not for every caller: it returns a number, no argument has more than 64 bits,
 * and pointers are TWIN_GIVEN, not null.
 */
#ifdef __bpf__
#define TWIN_GLOBAL __attribute__((noinline))
#define TWIN_GIVEN __attribute__((btf_decl_tag("arg:nonnull")))
#else
#define TWIN_GLOBAL TWIN_FUNCTION
#define TWIN_GIVEN
#endif

/* A loop over a range. The chassis in the kernel has another: its verifier follows each round of this one. */
#ifndef TWIN_FOR
#define TWIN_FOR(type, i, from, to) for (type i = (from); i < (to); i++)
#endif

#ifndef U32_MAX
#define U32_MAX ((u32)~0u)
#endif
#ifndef U64_MAX
#define U64_MAX ((u64)~0ull)
#endif
#ifndef S64_MAX
#define S64_MAX ((s64)(U64_MAX >> 1))
#endif

/* A place among a number of things that is a power of two: in 64 bits and behind a barrier, so that the compiler adds what the verifier sees masked. */
TWIN_INLINE u64 twin_index(u32 i, u32 count)
{
	u64 index = i & (count - 1);

	__asm__("" : "+r"(index));
	return index;
}

TWIN_INLINE u32 min_u32(u32 a, u32 b) { return a < b ? a : b; }
TWIN_INLINE u64 min_u64(u64 a, u64 b) { return a < b ? a : b; }
TWIN_INLINE u128 min_u128(u128 a, u128 b) { return a < b ? a : b; }
TWIN_INLINE s64 min_s64(s64 a, s64 b) { return a < b ? a : b; }
TWIN_INLINE u32 max_u32(u32 a, u32 b) { return a > b ? a : b; }
TWIN_INLINE u64 max_u64(u64 a, u64 b) { return a > b ? a : b; }
TWIN_INLINE u128 max_u128(u128 a, u128 b) { return a > b ? a : b; }
TWIN_INLINE s64 max_s64(s64 a, s64 b) { return a > b ? a : b; }
TWIN_INLINE u32 clamp_u32(u32 x, u32 low, u32 high) { return min_u32(max_u32(x, low), high); }
TWIN_INLINE u64 clamp_u64(u64 x, u64 low, u64 high) { return min_u64(max_u64(x, low), high); }
TWIN_INLINE s64 clamp_s64(s64 x, s64 low, s64 high) { return min_s64(max_s64(x, low), high); }

TWIN_INLINE u32 wrapping_add_u32(u32 a, u32 b) { return a + b; }
TWIN_INLINE u64 wrapping_add_u64(u64 a, u64 b) { return a + b; }
TWIN_INLINE u32 wrapping_sub_u32(u32 a, u32 b) { return a - b; }
TWIN_INLINE u64 wrapping_sub_u64(u64 a, u64 b) { return a - b; }
TWIN_INLINE u32 wrapping_mul_u32(u32 a, u32 b) { return a * b; }
TWIN_INLINE u64 wrapping_mul_u64(u64 a, u64 b) { return a * b; }

/* Signed overflow is undefined in C. None is possible, which kernel/prove shows; were it, this would wrap as Rust does. */
TWIN_INLINE s64 add_s64(s64 a, s64 b) { return (s64)((u64)a + (u64)b); }
TWIN_INLINE s64 sub_s64(s64 a, s64 b) { return (s64)((u64)a - (u64)b); }
TWIN_INLINE s64 mul_s64(s64 a, s64 b) { return (s64)((u64)a * (u64)b); }

/* Hides a value from the optimizer, which would otherwise compile a saturating sum or difference to several branches. */
TWIN_INLINE u64 twin_hidden_u64(u64 x)
{
	__asm__("" : "+r"(x));
	return x;
}

TWIN_INLINE u32 saturating_add_u32(u32 a, u32 b) { return a + b < a ? U32_MAX : a + b; }
TWIN_INLINE u64 saturating_add_u64(u64 a, u64 b)
{
	u64 sum = twin_hidden_u64(a + b);

	return sum < a ? U64_MAX : sum;
}

TWIN_INLINE u32 saturating_sub_u32(u32 a, u32 b) { return a > b ? a - b : 0; }

TWIN_INLINE u64 saturating_sub_u64(u64 a, u64 b)
{
	u64 difference = twin_hidden_u64(a - b);

	return a > b ? difference : 0;
}

TWIN_INLINE u128 saturating_sub_u128(u128 a, u128 b) { return a > b ? a - b : 0; }
TWIN_INLINE u64 unsigned_abs_s64(s64 a) { return a < 0 ? (u64)0 - (u64)a : (u64)a; }
TWIN_INLINE u64 rotate_left_u64(u64 a, u32 by) { return a << (by & 63) | a >> (-by & 63); }
TWIN_INLINE u64 rotate_right_u64(u64 a, u32 by) { return a >> (by & 63) | a << (-by & 63); }
TWIN_INLINE u64 abs_diff_u64(u64 a, u64 b) { return a > b ? a - b : b - a; }

TWIN_INLINE s64 saturating_sub_s64(s64 a, s64 b)
{
	s64 difference = (s64)((u64)a - (u64)b);

	/* Only numbers of different signs overflow, and then the difference has not the sign of a. */
	if (((a ^ b) & (a ^ difference)) < 0)
		return a < 0 ? -S64_MAX - 1 : S64_MAX;
	return difference;
}

TWIN_INLINE s64 saturating_add_s64(s64 a, s64 b)
{
	s64 sum = (s64)((u64)a + (u64)b);

	/* Only numbers of one sign overflow, and then the sum has not that sign. */
	if ((~(a ^ b) & (a ^ sum)) < 0)
		return a < 0 ? -S64_MAX - 1 : S64_MAX;
	return sum;
}

/* In halves of 32 bits: a check by a division is compiled to a product of 128 bits. */
TWIN_INLINE u64 saturating_mul_u64(u64 a, u64 b)
{
	u64 cross, low, sum;

	/* As most are: a rate, and a time below 16 ms. */
	if ((a >> 40 | b >> 24) == 0)
		return a * b;
	low = (u64)(u32)a * (u32)b;
	if ((a >> 32) != 0 && (b >> 32) != 0)
		return U64_MAX;
	/* One of the two is zero. */
	cross = (a >> 32) * (u32)b + (b >> 32) * (u32)a;
	sum = low + (cross << 32);
	return (cross >> 32) != 0 || sum < low ? U64_MAX : sum;
}

/* b is not zero. */
TWIN_INLINE u64 div_ceil_u64(u64 a, u64 b) { return a / b + (a % b != 0); }

TWIN_INLINE u32 leading_zeros_u64(u64 x)
{
	u32 zeros = 0;

	for (u32 by = 32; by != 0; by /= 2) {
		/* Whether the upper half of what is left is zero. */
		u32 skip = (x >> (64 - by)) == 0 ? by : 0;

		zeros += skip;
		x <<= skip;
	}
	return x == 0 ? 64 : zeros;
}

/* All ones where a is below b: the difference borrows. The compiler would make a branch of a comparison. */
TWIN_INLINE u64 below_u64(u64 a, u64 b)
{
	u64 mask = (u64)0 - (((~a & b) | ((~a | b) & (a - b))) >> 63);

	__asm__("" : "+r"(mask));
	return mask;
}

/* The functions of crates/units/src/wide.rs. */

TWIN_INLINE u64 mul_high_u64(u64 a, u64 b)
{
	u64 low = (u64)(u32)a * (u32)b, left = (a >> 32) * (u32)b, right = (u64)(u32)a * (b >> 32);
	u64 middle = (low >> 32) + (u32)left + (u32)right;

	return (a >> 32) * (b >> 32) + (left >> 32) + (right >> 32) + (middle >> 32);
}

/* Of the upper half of a number, below c, and its lower half: the quotient by c, bit by bit. *rest: the upper half, then the rest. */
TWIN_INLINE u64 twin_divide_halves(u64 *rest, u64 low, u64 c)
{
	u64 high = *rest;

	for (u32 i = 0; i < 64; i++) {
		u64 over = (u64)0 - (high >> 63), fits;

		high = high << 1 | low >> 63;
		fits = over | ~below_u64(high, c);
		high -= c & fits;
		low = low << 1 | (fits & 1);
	}
	*rest = high;
	return low;
}

/* The verifier follows a function of its own once; with what is recorded it would run out of steps else. */
#ifdef TWIN_CALLS
#define TWIN_DIVISION __noinline
#else
#define TWIN_DIVISION TWIN_INLINE
#endif

/* The division of 128 bits is bit by bit. */
TWIN_DIVISION u64 mul_div_u64(u64 a, u64 b, u64 c)
{
	u64 rest = mul_high_u64(a, b), low = a * b;

	if (rest >= c)
		return U64_MAX;
	if (rest == 0)
		return low / c;
	return twin_divide_halves(&rest, low, c);
}

/* (a * b + c * d) / e. */
TWIN_DIVISION u64 sum_div_u64(u64 a, u64 b, u64 c, u64 d, u64 e)
{
	u64 low = a * b, sum = low + c * d, high = mul_high_u64(a, b), rest = high + mul_high_u64(c, d), carry = sum < low;

	if (rest < high || rest + carry < rest || rest + carry >= e)
		return U64_MAX;
	rest += carry;
	if (rest == 0)
		return sum / e;
	return twin_divide_halves(&rest, sum, e);
}

TWIN_DIVISION u64 halves_div_ceil_u64(u64 high, u64 low, u64 by)
{
	u64 quotient;

	if (high >= by)
		return U64_MAX;
	if (high == 0)
		return div_ceil_u64(low, by);
	quotient = twin_divide_halves(&high, low, by);
	return high != 0 ? saturating_add_u64(quotient, 1) : quotient;
}

TWIN_INLINE u128 wide_mul_u64(u64 a, u64 b) { return (u128)mul_high_u64(a, b) << 64 | a * b; }

/*
 * The root rounded down, bit by bit from the highest. Without a branch in the loop, of which the kernel's verifier would
 * follow both ways in each of 32 rounds.
 */
TWIN_INLINE u64 isqrt_u64(u64 x)
{
	u64 root = 0, bit = 1ull << 62;

	for (u32 i = 0; i < 32; i++) {
		u64 trial = root + bit;
		u64 rest = x - trial;
		/* Whether the trial is too large. */
		u64 large = below_u64(x, trial);

		x = (x & large) | (rest & ~large);
		root = (root >> 1) + (bit & ~large);
		bit >>= 2;
	}
	return root;
}

#endif
