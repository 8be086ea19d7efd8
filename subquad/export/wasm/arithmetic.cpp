// The three C library functions that sampling a token needs, in double precision, with fdlibm's
// polynomials. In the range that sampling uses, errors are at most two units in the last place.
#include <cstdint>
#include <cstring>

namespace {
constexpr double kLn2High = 6.93147180369123816490e-01, kLn2Low = 1.90821492927058770002e-10;

// 2^k for an exponent of normal numbers.
double power_of_two(int64_t k) {
  const int64_t bits = (k + 1023) << 52;
  double x;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}
}  // namespace

extern "C" {

double exp(double x) {
  if (x != x) return x;
  if (x < -708) return 0;  // negligible as a probability
  if (x > 709) return __builtin_inf();
  const int64_t k = static_cast<int64_t>(x * 1.44269504088896338700 + (x < 0 ? -0.5 : 0.5));
  const double high = x - k * kLn2High, low = k * kLn2Low, r = high - low, t = r * r;
  const double c = r - t * (1.66666666666666019037e-01 + t * (-2.77777777770155933842e-03 +
      t * (6.61375632143793436117e-05 + t * (-1.65339022054652515390e-06 +
      t * 4.13813679705723846039e-08))));
  const double y = 1 - ((low - r * c / (2 - c)) - high);
  return k > 1022 ? y * power_of_two(1022) * power_of_two(k - 1022) : y * power_of_two(k);
}

double log(double x) {  // of normal numbers above zero
  int64_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  int64_t k = (bits >> 52) - 1023;
  bits = (bits & 0xfffffffffffff) | 0x3ff0000000000000;
  double m;
  std::memcpy(&m, &bits, sizeof m);
  if (m > 1.4142135623730951) m *= 0.5, ++k;
  const double f = m - 1, s = f / (2 + f), z = s * s, half = 0.5 * f * f;
  const double r = z * (6.666666666666735130e-01 + z * (3.999999999940941908e-01 +
      z * (2.857142874366239149e-01 + z * (2.222219843214978396e-01 + z * (1.818357216161805012e-01 +
      z * (1.531383769920937332e-01 + z * 1.479819860511658591e-01))))));
  return k * kLn2High - ((half - (s * (half + r) + k * kLn2Low)) - f);
}

double log1p(double x) {
  const double u = 1 + x;
  return log(u) + (x - (u - 1)) / u;  // corrects the rounding error of 1 + x
}

}  // extern "C"
