/* report_hists: see report_hists.h. */
#include "cmd/report_hists.h"

const struct report_hist report_hists[REPORT_HISTS] = {
    {"response", offsetof(struct campaign_result, response)},
    {"service", offsetof(struct campaign_result, service)},
    {"failed", offsetof(struct campaign_result, failed)},
    {"retried", offsetof(struct campaign_result, retried)},
    {"token_lag", offsetof(struct campaign_result, token_lag)},
    {"append", offsetof(struct campaign_result, append)},
    {"lag", offsetof(struct campaign_result, lag)},
    {"dispatch", offsetof(struct campaign_result, dispatch)},
    {"overshoot", offsetof(struct campaign_result, overshoot)},
    {"warmup", offsetof(struct campaign_result, warmup.response)},
};
