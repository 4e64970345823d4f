// What one core of this machine can do at most, so that a kernel's speed can be
// stated as a share of the hardware's: one JSON object on standard output.
//
//   f32_fma_256, f32_fma_512   operations per second of independent multiply-adds
//                              in registers; a multiply-add is 2. 0 where the
//                              machine has no such vectors.
//   l2, l3, dram               bytes per second read from a working set of that
//                              level.
//   l2_write, l3_write, dram_write
//                              bytes per second written to one.
//
// Every number is the best of many short trials: whatever else runs on the
// machine can only make a trial slower.
#define _GNU_SOURCE
#include <immintrin.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec + t.tv_nsec * 1e-9;
}

// Keeps a register alive without letting the compiler see through it.
#define OPAQUE(x) __asm__ volatile("" : "+v"(x))

// Chains that hide 4 cycles of latency on 2 ports, and fit with their factors
// into 16 registers. Each has a name of its own: an array would be spilled.
#define CHAINS 12
#define EACH(DO) DO(c0) DO(c1) DO(c2) DO(c3) DO(c4) DO(c5) DO(c6) DO(c7) DO(c8) DO(c9) DO(c10) DO(c11)

enum { ROUNDS = 200000, TRIALS = 200 };

#define CLEAR(c) c = a;
#define STEP(c) c = FMA(a, b, c); OPAQUE(c);
#define DEFINE_PEAK(NAME, VECTOR, ZERO, LANES)                    \
  static double NAME(void) {                                      \
    double best = 0;                                              \
    for (int trial = 0; trial < TRIALS; trial++) {                \
      VECTOR a = ZERO(), b = ZERO(), EACH_DECLARED;               \
      OPAQUE(a);                                                  \
      OPAQUE(b);                                                  \
      EACH(CLEAR)                                                 \
      double start = now();                                       \
      for (long r = 0; r < ROUNDS; r++) { EACH(STEP) }            \
      double seconds = now() - start;                             \
      EACH(OPAQUE_EACH)                                           \
      double rate = 2.0 * LANES * CHAINS * ROUNDS / seconds;      \
      if (rate > best) best = rate;                               \
    }                                                             \
    return best;                                                  \
  }
#define EACH_DECLARED c0, c1, c2, c3, c4, c5, c6, c7, c8, c9, c10, c11
#define OPAQUE_EACH(c) OPAQUE(c);

#ifdef __FMA__
#define FMA _mm256_fmadd_ps
DEFINE_PEAK(peak_256, __m256, _mm256_setzero_ps, 8)
#undef FMA
#else
static double peak_256(void) { return 0; }
#endif
#ifdef __AVX512F__
#define FMA _mm512_fmadd_ps
DEFINE_PEAK(peak_512, __m512, _mm512_setzero_ps, 16)
#undef FMA
#else
static double peak_512(void) { return 0; }
#endif

typedef float Vec __attribute__((vector_size(64), aligned(64)));

// Bytes per second of reading `bytes` of memory again and again.
static double read_rate(long bytes) {
  long n = bytes / (long)sizeof(Vec) / 4 * 4;
  Vec *data = aligned_alloc(64, (size_t)n * sizeof(Vec));
  if (!data) exit(1);
  memset(data, 0, (size_t)n * sizeof(Vec));
  long passes = (32L << 20) / bytes + 1;
  double best = 0;
  for (int trial = 0; trial < 25; trial++) {
    double start = now();
    for (long p = 0; p < passes; p++) {
      Vec s0 = {0}, s1 = s0, s2 = s0, s3 = s0;
      for (long i = 0; i < n; i += 4) {
        s0 += data[i];
        s1 += data[i + 1];
        s2 += data[i + 2];
        s3 += data[i + 3];
      }
      s0 += s1 + s2 + s3;
      __asm__ volatile("" : : "m"(s0) : "memory");
    }
    double rate = (double)n * sizeof(Vec) * passes / (now() - start);
    if (rate > best) best = rate;
  }
  free(data);
  return best;
}

// Bytes per second of writing `bytes` of memory again and again, through the caches.
static double write_rate(long bytes) {
  long n = bytes / (long)sizeof(Vec) / 4 * 4;
  Vec *data = aligned_alloc(64, (size_t)n * sizeof(Vec));
  if (!data) exit(1);
  memset(data, 0, (size_t)n * sizeof(Vec));
  long passes = (32L << 20) / bytes + 1;
  double best = 0;
  for (int trial = 0; trial < 25; trial++) {
    double start = now();
    for (long p = 0; p < passes; p++) {
      for (long i = 0; i < n; i += 4) {
        Vec value = {(float)p};
        __asm__ volatile("" : "+m"(value));
        data[i] = value;
        data[i + 1] = value;
        data[i + 2] = value;
        data[i + 3] = value;
        // A plain loop would become a call of memset, which may go round the caches.
        __asm__ volatile("" : : : "memory");
      }
    }
    double rate = (double)n * sizeof(Vec) * passes / (now() - start);
    if (rate > best) best = rate;
  }
  free(data);
  return best;
}

int main(void) {
  long l2 = 512L << 10, l3 = 8L << 20, dram = 256L << 20;
  printf("{\"f32_fma_256\": %.0f, \"f32_fma_512\": %.0f, ", peak_256(), peak_512());
  printf("\"l2\": %.0f, \"l3\": %.0f, \"dram\": %.0f, ", read_rate(l2), read_rate(l3), read_rate(dram));
  printf("\"l2_write\": %.0f, \"l3_write\": %.0f, \"dram_write\": %.0f}\n", write_rate(l2), write_rate(l3),
         write_rate(dram));
  return 0;
}
