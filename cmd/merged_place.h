/*
 * merged_place: what the results of a merge were measured with and on: their build, their hosts as
 * one, the settings of their store.
 *
 * Of hosts a fact is taken where all of them have it, and it is the same; what differs is named.
 * Builds and settings are the same in all, which merge_rules.h sees to. Input is hostile: what is
 * no such fact is not known, texts are cut and cleaned.
 *
 * Ownership: what is filled is the caller's; texts that it points to are the results', and live as
 * long. Threading: none. Errors: see each.
 */
#ifndef BENCH_MERGED_PLACE_H
#define BENCH_MERGED_PLACE_H

#include <jansson.h>

#include "cmd/host.h"
#include "cmd/result_file.h"
#include "cmd/version.h"
#include "journal/journal.h"

/* "store_" and it are a key of report_provenance.h. */
enum { MERGED_SETTING_KEY_BYTES_MAX = 48 };

/* Of an array of sources, each an object with its "host". */
void merged_place_host(const json_t *sources, struct host *host);

/* Texts are not cleaned; one that is not there is "unknown". */
struct version merged_place_build(const struct result_file *file);

/* -EINVAL where they are no settings of a store. */
int merged_place_settings(const struct result_file *file, struct journal_settings *settings,
                          struct errmsg *why);

#endif
