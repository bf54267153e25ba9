/* steady: see steady.h. */
#include "cmd/steady.h"

void steady_add(struct steady *steady, double rate)
{
    steady->rates[steady->next] = rate;
    steady->next = (steady->next + 1) % STEADY_WINDOW;
    steady->count += steady->count < STEADY_WINDOW;
}

bool steady_slope(const struct steady *steady, double *slope)
{
    const double middle = (STEADY_WINDOW - 1) / 2.0;
    double sum = 0;
    double products = 0;
    double squares = 0;
    if (steady->count < STEADY_WINDOW)
        return false;
    for (unsigned i = 0; i < STEADY_WINDOW; i++) {
        double rate = steady->rates[(steady->next + i) % STEADY_WINDOW];
        sum += rate;
        products += (i - middle) * rate;
        squares += (i - middle) * (i - middle);
    }
    if (sum <= 0)
        return false;
    *slope = products / squares * (STEADY_WINDOW - 1) / (sum / STEADY_WINDOW);
    return true;
}
