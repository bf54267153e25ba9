/* fuzz_record: a kind, as the first byte, and any bytes as its payload. What is refused has a
 * reason of one line; what is taken points into the payload and, written again, is that payload. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/record.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool is_so, const char *what)
{
    if (!is_so) {
        (void)fprintf(stderr, "fuzz_record: %s\n", what); /* the trap tells it, too */
        __builtin_trap();
    }
}

static char *allocate(size_t size)
{
    char *block = malloc(size != 0 ? size : 1);
    require(block != NULL, "no memory");
    return block;
}

static void check_span(const struct json_span *span, const char *bytes, size_t size)
{
    size_t at = (size_t)(span->bytes - bytes);
    require(span->bytes >= bytes && at <= size && span->size <= size - at,
            "a span outside of the payload");
}

/* A text as it was before it was written: its escapes resolved. */
static void write_text(struct json_writer *w, const struct record *record)
{
    char *text = allocate(record->text.size);
    size_t size = json_unescape(&record->text, text);
    if (record->kind == RECORD_TOOL) {
        record_write_tool(w, record->call_id, text, size, record->is_error);
    } else if (record->kind == RECORD_RETRY) {
        record_write_retry(w, record->attempt, text, size);
    } else if (record->kind == RECORD_DELTA) {
        record_write_delta(w, record->attempt, text, size);
    } else {
        struct record_begin begin = record->begin;
        begin.input = text;
        begin.input_bytes = size;
        record_write_begin(w, &begin);
    }
    free(text);
}

static void write_again(struct json_writer *w, const struct record *record)
{
    switch (record->kind) {
    case RECORD_BEGIN:
    case RECORD_TOOL:
    case RECORD_RETRY:
    case RECORD_DELTA:
        write_text(w, record);
        return;
    case RECORD_MODEL:
        record_write_model(w, &record->model);
        return;
    case RECORD_ATTEMPT:
        record_write_attempt(w, record->call_id, &record->tool, &record->text, record->attempt);
        return;
    case RECORD_END:
        record_write_end(w, &record->end);
        return;
    }
    require(false, "an unknown kind was taken");
}

static void check_taken(const struct record *record, const char *bytes, size_t size)
{
    if (record->kind != RECORD_END)
        check_span(&record->text, bytes, size);
    if (record->kind == RECORD_ATTEMPT)
        check_span(&record->tool, bytes, size);
    if (record->kind == RECORD_MODEL)
        check_span(&record->model.message, bytes, size);
    char *again = allocate(record_bytes_max(size));
    struct json_writer w = json_writer_on(again, record_bytes_max(size));
    write_again(&w, record);
    require(json_write_ok(&w), "no room where there must be");
    /* A text that had escapes may have had others than those that are needed. */
    bool is_exact = record->kind == RECORD_MODEL || !record->text.has_escapes;
    bool is_same = (size_t)(w.at - again) == size && memcmp(again, bytes, size) == 0;
    require(is_same || !is_exact, "written again, it is another");
    struct record twice;
    require(record_read(&twice, record->kind, again, (size_t)(w.at - again)) == NULL,
            "written again, it is refused");
    free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    char *bytes = allocate(size - 1); /* of exactly that size */
    memcpy(bytes, data + 1, size - 1);
    struct record record;
    const char *why = record_read(&record, data[0] % 16, bytes, size - 1);
    if (why == NULL)
        check_taken(&record, bytes, size - 1);
    else
        require(why[0] != '\0' && strchr(why, '\n') == NULL, "a reason that is none");
    free(bytes);
    return 0;
}
