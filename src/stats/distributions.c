/* Tails of Student's t, normal, chi-square and binomial distributions. Factors like x^a e^-x /
 * Gamma(a) come from log(1 + u) - u and Stirling's remainder, which keeps digits of large
 * parameters. */

#include "core/base.h"

#include "stats/statistics.h"

#include <float.h>
#include <math.h>

#define PI 3.14159265358979323846
#define LOG_SQRT_2PI 0.91893853320467274178
#define SQRT_HALF 0.70710678118654752440

/* ---- gamma function ---- */

/* log Gamma(x) - ((x - 1/2) log x - x + log sqrt(2 pi)) for x >= 10: the Bernoulli series. */
static double stirling_rest(double x) {
    static const double term[] = {1.0 / 12,   -1.0 / 360,      1.0 / 1260, -1.0 / 1680,
                                  1.0 / 1188, -691.0 / 360360, 1.0 / 156,  -3617.0 / 122400};
    double inverse = 1 / x;
    double square = inverse * inverse;
    double sum = 0;
    for (int i = 7; i >= 0; i--)
        sum = sum * square + term[i];
    return sum * inverse;
}

/* x > 0. Below 10 by Gamma(x) = Gamma(x + n) / (x (x + 1) ... (x + n - 1)). */
static double log_gamma(double x) {
    double product = 1;
    while (x < 10) {
        product *= x;
        x += 1;
    }
    return (x - 0.5) * log(x) - x + LOG_SQRT_2PI + stirling_rest(x) - log(product);
}

/* That rest for every x > 0. */
static double gamma_rest(double x) {
    return x >= 10 ? stirling_rest(x) : log_gamma(x) - ((x - 0.5) * log(x) - x + LOG_SQRT_2PI);
}

/* log Gamma(1 + x), 0 <= x <= 1, to relative precision also where it is nearly 0: for small x the
 * Taylor series of Euler's constant and zeta(2..8). */
static double log_gamma_1p(double x) {
    static const double coefficient[] = {-0.57721566490153286061,     1.64493406684822643647 / 2,
                                         -1.20205690315959428540 / 3, 1.08232323371113819152 / 4,
                                         -1.03692775514336992633 / 5, 1.01734306198444913971 / 6,
                                         -1.00834927738192282684 / 7, 1.00407735619794433938 / 8};
    if (x > 0.01)
        return log_gamma(1 + x);
    double sum = 0;
    for (int i = 7; i >= 0; i--)
        sum = sum * x + coefficient[i];
    return sum * x;
}

/* log(1 + u) - u, u > -1, without cancellation at small u: with r = u / (2 + u),
 * log(1 + u) = 2 (r + r^3/3 + ...) and 2 r - u = -r u. */
static double log_1p_less(double u) {
    if (fabs(u) > 0.3)
        return log1p(u) - u;
    double r = u / (2 + u);
    double square = r * r;
    double sum = 0;
    for (int k = 25; k >= 3; k -= 2)
        sum = sum * square + 1.0 / k;
    return 2 * r * square * sum - r * u;
}

/* ---- incomplete beta ---- */

/* Limit of series and fractions, which need a few square roots of the larger parameter. */
enum { TERMS_MAX = 100000000 };

static double away_from_0(double x) {
    return fabs(x) < 1e-300 ? 1e-300 : x;
}

/* log of 1 / B(a, b), b not large. */
static double log_inverse_beta(double a, double b) {
    if (a < 10)
        return log_gamma(a + b) - log_gamma(a) - log_gamma(b);
    double ratio =
        (a - 0.5) * log1p(b / a) + b * log(a + b) - b + stirling_rest(a + b) - stirling_rest(a);
    return ratio - log_gamma(b);
}

/* I_x(a, b) B(a, b) / (x^a y^b), y = 1 - x, for x below (a + 1) / (a + b + 2): the continued
 * fraction of Didonato and Morris (1992), which keeps the digits of a small y. */
static double beta_fraction(double a, double b, double x, double y) {
    double f = a * (a * y - b * x + 1) / (a + 1);
    double c = f;
    double d = 0;
    for (int n = 1; n < TERMS_MAX; n++) {
        double m = n;
        double at = a + 2 * m - 1;
        double numerator = (a + m - 1) / at * ((a + b + m - 1) / at) * m * (b - m) * x * x;
        double denominator = m + m * (b - m) * x / at +
                             (a + m) * (a * y - b * x + 1 + m * (1 + y)) / (a + 2 * m + 1);
        d = 1 / away_from_0(denominator + numerator * d);
        c = away_from_0(denominator + numerator / c);
        f *= c * d;
        if (fabs(c * d - 1) <= DBL_EPSILON)
            break;
    }
    return 1 / f;
}

/* log(r) - (r - 1) of r = v / a, v >= 0, a > 0, to relative precision. gap: v - a. */
static double log_ratio_less(double v, double a, double gap) {
    double u = gap / a;
    return fabs(u) > 0.3 ? log(v / a) - u : log_1p_less(u);
}

/* x^a y^b / B(a, b): by the distance of x from a / (a + b), with what Stirling's formula leaves. */
static double beta_front(double a, double b, double x, double y) {
    double n = a + b;
    double exponent =
        a * log_ratio_less(x * n, a, x * n - a) + b * log_ratio_less(y * n, b, y * n - b);
    double rest = gamma_rest(n) - gamma_rest(a) - gamma_rest(b);
    return exp(exponent + rest) * sqrt(a / n * (b / (2 * PI)));
}

/* I_x(a, b), the regularised incomplete beta function, for a, b > 0, x in [0, 1] and y = 1 - x,
 * which the caller may know more digits of. */
static double beta_lower(double a, double b, double x, double y) {
    if (!(a > 0 && b > 0 && x >= 0 && y >= 0))
        return NAN;
    if (x == 0 || y == 0)
        return x == 0 ? 0 : 1;
    double front = beta_front(a, b, x, y);
    if (x < (a + 1) / (a + b + 2))
        return fmin(front * beta_fraction(a, b, x, y), 1);
    return fmax(1 - front * beta_fraction(b, a, y, x), 0);
}

double cst_student_t_two_sided(double t, double df) {
    if (isnan(t) || !(df > 0))
        return NAN;
    t = fabs(t);
    if (isinf(t))
        return 0;
    if (df > 1e10) /* Fisher's expansion; its next term changes p by less than t^6 / (7 df^2) */
        return t > 1e4 ? 0 : erfc(t * (1 - (t * t + 1) / (4 * df)) * SQRT_HALF);
    /* I_x(df/2, 1/2) with x = df / (df + t^2), y = 1 - x, each without cancellation or overflow. */
    double u = t / sqrt(df);
    double x = 1 / (1 + u * u);
    double y = u < 1 ? u * u / (1 + u * u) : 1 / (1 + 1 / u / u);
    double log_x = u < 1e100 ? -log1p(u * u) : log(df) - 2 * log(t);
    double log_y = u < 1 ? log(y) : -log1p(1 / u / u);
    if (y == 0)
        return 1;
    double a = df / 2;
    double front = exp(a * log_x + 0.5 * log_y + log_inverse_beta(a, 0.5));
    if (x < (a + 1) / (a + 2.5))
        return fmin(front * beta_fraction(a, 0.5, x, y), 1);
    return fmax(1 - front * beta_fraction(0.5, a, y, x), 0);
}

/* ---- normal ---- */

/* log P(Z >= z), z >= 0; beyond 30 by the asymptotic series, since erfc soon underflows. */
static double log_normal_upper(double z) {
    if (z < 30)
        return log(0.5 * erfc(z * SQRT_HALF));
    double square = z * z;
    double sum = 0;
    for (int k = 13; k >= 1; k -= 2)
        sum = -(k / square) * (1 + sum);
    return -0.5 * square - log(z) - LOG_SQRT_2PI + log1p(sum);
}

double cst_normal_quantile(double p) {
    if (!(p >= 0 && p <= 1))
        return NAN;
    if (p == 0 || p == 1)
        return p == 0 ? -HUGE_VAL : HUGE_VAL;
    double middle = p - 0.5;
    double z = 0;
    if (fabs(middle) < 0.3) {
        /* Newton on P(0 <= Z <= z) = middle, which has its digits at the middle. */
        z = middle / 0.39894228040143267794;
        for (int i = 0; i < 20; i++) {
            double step = (0.5 * erf(z * SQRT_HALF) - middle) * exp(0.5 * z * z + LOG_SQRT_2PI);
            z -= step;
            if (fabs(step) <= 4 * DBL_EPSILON * fabs(z))
                break;
        }
        return z;
    }
    double log_tail = log(middle < 0 ? p : 1 - p); /* 1 - p is exact here */
    z = sqrt(-2 * log_tail);
    for (int i = 0; i < 50; i++) { /* Newton on the log of the tail, which is concave */
        double now = log_normal_upper(z);
        double step = (now - log_tail) * exp(now + 0.5 * z * z + LOG_SQRT_2PI);
        z += step;
        if (fabs(step) <= 4 * DBL_EPSILON * z)
            break;
    }
    return middle < 0 ? -z : z;
}

/* ---- chi-square ---- */

/* x^a e^-x / Gamma(a). */
static double gamma_front(double a, double x) {
    if (a < 10)
        return exp(a * log(x) - x - log_gamma(a));
    double u = (x - a) / a;
    return exp(a * log_1p_less(u) - stirling_rest(a)) * sqrt(a / (2 * PI));
}

/* Q(a, x) for small a and x: 1 - x^a / Gamma(1 + a) by expm1, and the rest of the series of P. */
static double gamma_upper_small(double a, double x) {
    double log_first = a * log(x) - log_gamma_1p(a);
    double sum = 0;
    double term = 1;
    for (int n = 1; n < 100; n++) {
        term *= -x / n;
        double add = term / (a + n);
        sum += add;
        if (fabs(add) <= DBL_EPSILON * fabs(sum))
            break;
    }
    return -expm1(log_first) - exp(log_first) * a * sum;
}

double cst_chi_square_upper(double x, double df) {
    if (isnan(x) || !(df > 0) || isinf(df))
        return NAN;
    if (x <= 0)
        return 1;
    if (isinf(x))
        return 0;
    double a = df / 2;
    x /= 2;
    if (x == 0)
        return 1;
    if (a < 1 && x < 1)
        return fmin(gamma_upper_small(a, x), 1);
    if (x < a + 1) {
        double sum = 1 / a; /* the series of P (DLMF 8.7.1) */
        double term = sum;
        for (int n = 1; n < TERMS_MAX && term > DBL_EPSILON / 8 * sum; n++) {
            term *= x / (a + n);
            sum += term;
        }
        return fmax(1 - gamma_front(a, x) * sum, 0);
    }
    double b = x + 1 - a; /* Lentz on the continued fraction of Q (DLMF 8.9.2) */
    double c = 1e300;
    double d = 1 / away_from_0(b);
    double value = d;
    for (int n = 1; n < TERMS_MAX; n++) {
        double an = -n * (n - a);
        b += 2;
        d = 1 / away_from_0(an * d + b);
        c = away_from_0(b + an / c);
        value *= c * d;
        if (fabs(c * d - 1) <= DBL_EPSILON)
            break;
    }
    return fmin(gamma_front(a, x) * value, 1);
}

/* ---- binomial ---- */

/* Probability of k heads in n flips, 1 <= k <= n / 2 (Loader's saddle point). */
static double fair_probability(double k, double n) {
    double u = (n - 2 * k) / n; /* k = n (1 - u) / 2 */
    double exponent = -0.5 * n * ((1 - u) * log_1p_less(-u) + (1 + u) * log_1p_less(u) + 2 * u * u);
    /* n! = sqrt(2 pi n) (n / e)^n e^rest(n), with the same rest as of Gamma(n). */
    double rest = gamma_rest(n) - gamma_rest(k) - gamma_rest(n - k);
    return exp(exponent + rest) * sqrt(n / (2 * PI * k * (n - k)));
}

double cst_binomial_two_sided(int64_t successes, int64_t trials) {
    if (trials < 0 || successes < 0 || successes > trials)
        return NAN;
    double n = (double)trials;
    double k = (double)(successes < trials - successes ? successes : trials - successes);
    if (2 * k >= n - 1) /* the middle, alone or one of two */
        return 1;
    if (k == 0)
        return 2 * exp2(-n);
    double sum = 1; /* P(X <= k) / P(X = k) */
    double term = 1;
    for (double i = k; i > 0 && term > DBL_EPSILON / 8 * sum; i--) {
        term *= i / (n - i + 1);
        sum += term;
    }
    return fmin(2 * fair_probability(k, n) * sum, 1);
}

/* ---- bounds of a probability ---- */

double cst_binomial_at_most(int64_t k, int64_t n, double p) {
    if (n < 0 || !(p >= 0 && p <= 1))
        return NAN;
    if (k < 0 || k >= n)
        return k < 0 ? 0 : 1;
    return beta_lower((double)(n - k), (double)k + 1, 1 - p, p);
}

double cst_binomial_at_least(int64_t k, int64_t n, double p) {
    if (n < 0 || !(p >= 0 && p <= 1))
        return NAN;
    if (k <= 0 || k > n)
        return k <= 0 ? 1 : 0;
    return beta_lower((double)k, (double)(n - k) + 1, p, 1 - p);
}

/* ---- bisection ---- */

/* A function of q that is compared with `bound`. */
typedef struct question {
    double (*value)(const struct question *asked, double q);
    int64_t k, n;
    double p, bound;
} question;

/* Two neighbouring doubles or the ends: at *low the value is above the bound (rising: below), at
 * *high it is not. Halves by the geometric mean where ends are of unlike size. */
static void bisect(const question *asked, bool rising, double *low, double *high) {
    for (;;) {
        double middle = *low + (*high - *low) / 2;
        if (*low > 0 && *high > 4 * *low)
            middle = sqrt(*low) * sqrt(*high);
        if (!(middle > *low && middle < *high))
            return;
        double value = asked->value(asked, middle);
        if (rising ? value < asked->bound : value > asked->bound)
            *low = middle;
        else
            *high = middle;
    }
}

static double at_most_of(const question *q, double p) {
    return cst_binomial_at_most(q->k, q->n, p);
}

static double at_least_of(const question *q, double p) {
    return cst_binomial_at_least(q->k, q->n, p);
}

static double kl_of(const question *q, double to) {
    return cst_binary_kl(q->p, to);
}

static bool counts_fit(int64_t k, int64_t n, double delta) {
    return n >= 1 && k >= 0 && k <= n && delta > 0 && delta < 1;
}

double cst_binomial_upper(int64_t k, int64_t n, double delta) {
    if (!counts_fit(k, n, delta))
        return NAN;
    if (k == n)
        return 1;
    if (k == 0) /* (1 - p)^n = delta */
        return -expm1(log(delta) / (double)n);
    question tail = {.value = at_most_of, .k = k, .n = n, .bound = delta};
    double low = 0;
    double high = 1;
    bisect(&tail, false, &low, &high);
    return high;
}

double cst_binomial_lower(int64_t k, int64_t n, double delta) {
    if (!counts_fit(k, n, delta))
        return NAN;
    if (k == 0)
        return 0;
    if (k == n) /* p^n = delta */
        return exp(log(delta) / (double)n);
    question tail = {.value = at_least_of, .k = k, .n = n, .bound = delta};
    double low = 0;
    double high = 1;
    bisect(&tail, true, &low, &high);
    return low;
}

/* ---- binary KL ---- */

/* One outcome's part of kl(p || q), -p log(q / p), with q - p added, which the parts of both
 * outcomes lose again. p > 0. */
static double kl_part(double p, double q, double gap) {
    return -p * log_ratio_less(q, p, gap);
}

double cst_binary_kl(double p, double q) {
    if (!(p >= 0 && p <= 1 && q >= 0 && q <= 1))
        return NAN;
    if (p == 0)
        return -log1p(-q);
    if (p == 1)
        return -log(q);
    if (q == 1)
        return INFINITY;
    return kl_part(p, q, q - p) + kl_part(1 - p, 1 - q, p - q);
}

double cst_binary_kl_upper(double p, double bound) {
    if (!(p >= 0 && p <= 1 && bound >= 0))
        return NAN;
    if (p == 0)
        return -expm1(-bound);
    if (bound == 0 || p == 1)
        return p;
    question divergence = {.value = kl_of, .p = p, .bound = bound};
    double low = p;
    double high = 1;
    bisect(&divergence, true, &low, &high);
    return high;
}
