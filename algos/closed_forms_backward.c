/* closed_forms_backward.c - every count of the backward passes as a formula. See closed_forms.h. */
#include "closed_forms.h"

bool closed_form_standard_backward(const CountedBackward *problem, ClosedForm *form, Status *status)
{
    (void)problem;
    *form = (ClosedForm){0};
    return status_fail(status, STATUS_INFEASIBLE, "no closed form yet");
}

bool closed_form_fa2_backward(const CountedBackward *problem, ClosedForm *form, Status *status)
{
    (void)problem;
    *form = (ClosedForm){0};
    return status_fail(status, STATUS_INFEASIBLE, "no closed form yet");
}
