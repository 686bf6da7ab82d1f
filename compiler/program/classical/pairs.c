/* The probabilities of classes that fit those of pairs of classes best, by libsvm's iteration.
 * Compiled once to pairs.ll (see compiler/backends/cpu/build_portable.py), which every host loads. */
#include <stdint.h>

/* One step: the distribution comes closer to where the quadratic form is least. It returns whether
 * it was close enough before. */
static int step(const double *form, int64_t classes, double *found, double *slope)
{
    double value = 0, worst = 0;
    for (int64_t i = 0; i < classes; i++) {
        slope[i] = 0;
        for (int64_t j = 0; j < classes; j++)
            slope[i] += form[i * classes + j] * found[j];
        value += found[i] * slope[i];
    }
    for (int64_t i = 0; i < classes; i++) {
        double off = slope[i] < value ? value - slope[i] : slope[i] - value;
        worst = off > worst ? off : worst;
    }
    if (worst < 0.005 / classes)
        return 1;
    for (int64_t t = 0; t < classes; t++) {
        const double *row = form + t * classes;
        double by = (value - slope[t]) / row[t], scale = 1 / (1 + by);
        value = (value + by * (by * row[t] + 2 * slope[t])) * scale * scale;
        found[t] += by;
        for (int64_t i = 0; i < classes; i++) {
            slope[i] = (slope[i] + by * row[i]) * scale;
            found[i] *= scale;
        }
    }
    return 0;
}

/* Moves each of `count` distributions (count, classes) to where its form (count, classes, classes)
 * is least, nearly; `slope` has room for one row. */
void pairs_fit(const double *forms, int64_t count, int64_t classes, double *found, double *slope)
{
    for (int64_t row = 0; row < count; row++) {
        int64_t steps = classes > 100 ? classes : 100;
        while (steps-- > 0 && !step(forms, classes, found, slope)) {}
        forms += classes * classes;
        found += classes;
    }
}
