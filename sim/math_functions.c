/* math_functions.c - the functions of math_inline.h as calls; see math_functions.h. */
#include "math_functions.h"
#include "math_inline.h"

double exp_f64(double x) { return exp_f64_inline(x); }

double exp2_f64(double x) { return exp2_f64_inline(x); }

double log_f64(double x) { return log_f64_inline(x); }

float exp_f32(float x) { return exp_f32_inline(x); }

float exp2_f32(float x) { return exp2_f32_inline(x); }

float log_f32(float x) { return log_f32_inline(x); }
