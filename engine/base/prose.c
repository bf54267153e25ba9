/*
 * prose: see prose.h.
 *
 * Zipf's law without a table of probabilities: from each octave of ranks (1, 2 to 3, 4 to 7, … 256
 * to 511) equally many words are drawn, and within an octave all are equally likely. A word is
 * copied as 16 bytes, whatever its length, and what was copied too much is overwritten by the next;
 * half a draw of the generator decides all of it, and no branch depends on it.
 */
#include "engine/base/prose.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>

enum {
    OCTAVES = 9,
    WORDS = (1 << OCTAVES) - 1,
    WORD_BYTES = 16,
    PUT_BYTES_MAX = WORD_BYTES + 1, /* a word, and a mark behind it */
    PAIR_BYTES_MAX = 2 * PUT_BYTES_MAX,
    SENTENCE_WORDS_MIN = 6,
};

/* With the space behind it. */
struct word {
    char text[WORD_BYTES - 1];
    uint8_t bytes;
};
static_assert(sizeof(struct word) == WORD_BYTES, "copied as one block");

#define W(word)                                                                                    \
    {                                                                                              \
        word " ", sizeof(word)                                                                     \
    }

/* Roughly the most frequent first, with words of the trade among them. */
static const struct word words[] = {
    W("the"),        W("of"),          W("and"),        W("to"),           W("a"),
    W("in"),         W("that"),        W("is"),         W("it"),           W("was"),
    W("for"),        W("on"),          W("with"),       W("as"),           W("be"),
    W("at"),         W("by"),          W("this"),       W("had"),          W("not"),
    W("are"),        W("but"),         W("from"),       W("or"),           W("have"),
    W("an"),         W("they"),        W("which"),      W("one"),          W("you"),
    W("were"),       W("all"),         W("her"),        W("she"),          W("there"),
    W("would"),      W("their"),       W("we"),         W("him"),          W("been"),
    W("has"),        W("when"),        W("who"),        W("will"),         W("no"),
    W("more"),       W("if"),          W("out"),        W("so"),           W("up"),
    W("said"),       W("what"),        W("its"),        W("about"),        W("than"),
    W("into"),       W("them"),        W("can"),        W("only"),         W("other"),
    W("time"),       W("new"),         W("some"),       W("could"),        W("these"),
    W("two"),        W("may"),         W("first"),      W("then"),         W("do"),
    W("any"),        W("like"),        W("my"),         W("now"),          W("over"),
    W("such"),       W("our"),         W("man"),        W("me"),           W("even"),
    W("most"),       W("made"),        W("after"),      W("also"),         W("did"),
    W("many"),       W("off"),         W("before"),     W("must"),         W("well"),
    W("back"),       W("through"),     W("years"),      W("much"),         W("where"),
    W("your"),       W("way"),         W("down"),       W("should"),       W("because"),
    W("long"),       W("each"),        W("just"),       W("state"),        W("those"),
    W("people"),     W("too"),         W("mister"),     W("little"),       W("good"),
    W("world"),      W("very"),        W("make"),       W("year"),         W("still"),
    W("see"),        W("own"),         W("work"),       W("men"),          W("day"),
    W("get"),        W("here"),        W("old"),        W("life"),         W("both"),
    W("between"),    W("being"),       W("under"),      W("three"),        W("never"),
    W("know"),       W("same"),        W("last"),       W("another"),      W("while"),
    W("us"),         W("might"),       W("great"),      W("go"),           W("come"),
    W("since"),      W("against"),     W("right"),      W("came"),         W("take"),
    W("used"),       W("himself"),     W("few"),        W("house"),        W("use"),
    W("place"),      W("during"),      W("high"),       W("without"),      W("again"),
    W("home"),       W("around"),      W("small"),      W("however"),      W("found"),
    W("part"),       W("once"),        W("general"),    W("upon"),         W("every"),
    W("order"),      W("customer"),    W("package"),    W("delivery"),     W("address"),
    W("warehouse"),  W("tracking"),    W("account"),    W("payment"),      W("refund"),
    W("number"),     W("message"),     W("request"),    W("report"),       W("system"),
    W("service"),    W("answer"),      W("question"),   W("reason"),       W("minute"),
    W("week"),       W("month"),       W("morning"),    W("evening"),      W("shipment"),
    W("label"),      W("carrier"),     W("returned"),   W("received"),     W("confirmed"),
    W("delayed"),    W("arrived"),     W("checked"),    W("invoice"),      W("balance"),
    W("price"),      W("discount"),    W("window"),     W("office"),       W("street"),
    W("city"),       W("country"),     W("border"),     W("customs"),      W("form"),
    W("letter"),     W("mail"),        W("phone"),      W("call"),         W("agent"),
    W("team"),       W("manager"),     W("review"),     W("status"),       W("update"),
    W("record"),     W("history"),     W("detail"),     W("summary"),      W("result"),
    W("problem"),    W("solution"),    W("change"),     W("cancel"),       W("replace"),
    W("repair"),     W("damage"),      W("missing"),    W("wrong"),        W("correct"),
    W("complete"),   W("away"),        W("always"),     W("head"),         W("going"),
    W("often"),      W("asked"),       W("looked"),     W("far"),          W("water"),
    W("given"),      W("side"),        W("course"),     W("public"),       W("put"),
    W("thing"),      W("told"),        W("night"),      W("early"),        W("nothing"),
    W("think"),      W("took"),        W("need"),       W("end"),          W("point"),
    W("later"),      W("hand"),        W("within"),     W("word"),         W("eyes"),
    W("name"),       W("enough"),      W("left"),       W("almost"),       W("next"),
    W("light"),      W("important"),   W("money"),      W("children"),     W("large"),
    W("best"),       W("something"),   W("family"),     W("war"),          W("become"),
    W("kind"),       W("until"),       W("days"),       W("second"),       W("power"),
    W("help"),       W("young"),       W("company"),    W("group"),        W("social"),
    W("business"),   W("national"),    W("interest"),   W("present"),      W("several"),
    W("among"),      W("community"),   W("open"),       W("possible"),     W("thought"),
    W("better"),     W("rather"),      W("certain"),    W("whole"),        W("moment"),
    W("example"),    W("music"),       W("door"),       W("field"),        W("car"),
    W("true"),       W("feet"),        W("law"),        W("line"),         W("mind"),
    W("west"),       W("white"),       W("others"),     W("room"),         W("paper"),
    W("act"),        W("sense"),       W("free"),       W("south"),        W("ago"),
    W("above"),      W("turned"),      W("reached"),    W("toward"),       W("known"),
    W("close"),      W("late"),        W("real"),       W("half"),         W("black"),
    W("clear"),      W("local"),       W("body"),       W("party"),        W("table"),
    W("hard"),       W("love"),        W("program"),    W("period"),       W("today"),
    W("view"),       W("idea"),        W("common"),     W("short"),        W("human"),
    W("north"),      W("keep"),        W("study"),      W("force"),        W("heard"),
    W("already"),    W("making"),      W("level"),      W("ever"),         W("across"),
    W("perhaps"),    W("behind"),      W("itself"),     W("together"),     W("although"),
    W("death"),      W("special"),     W("evidence"),   W("material"),     W("front"),
    W("whether"),    W("society"),     W("century"),    W("various"),      W("section"),
    W("building"),   W("market"),      W("expected"),   W("department"),   W("million"),
    W("thousand"),   W("hundred"),     W("language"),   W("distance"),     W("weather"),
    W("garden"),     W("kitchen"),     W("station"),    W("village"),      W("mountain"),
    W("river"),      W("forest"),      W("island"),     W("harbour"),      W("bridge"),
    W("railway"),    W("engine"),      W("machine"),    W("instrument"),   W("measure"),
    W("pressure"),   W("temperature"), W("quality"),    W("quantity"),     W("average"),
    W("increase"),   W("decrease"),    W("difference"), W("similar"),      W("separate"),
    W("single"),     W("double"),      W("simple"),     W("natural"),      W("original"),
    W("previous"),   W("following"),   W("private"),    W("personal"),     W("political"),
    W("military"),   W("religious"),   W("modern"),     W("ancient"),      W("foreign"),
    W("medical"),    W("legal"),       W("royal"),      W("direct"),       W("central"),
    W("western"),    W("eastern"),     W("southern"),   W("northern"),     W("beautiful"),
    W("necessary"),  W("available"),   W("particular"), W("probably"),     W("sometimes"),
    W("everything"), W("anything"),    W("someone"),    W("nobody"),       W("nowhere"),
    W("everywhere"), W("suddenly"),    W("quickly"),    W("slowly"),       W("carefully"),
    W("certainly"),  W("recently"),    W("finally"),    W("usually"),      W("generally"),
    W("actually"),   W("especially"),  W("exactly"),    W("simply"),       W("nearly"),
    W("quite"),      W("therefore"),   W("moreover"),   W("nevertheless"), W("meanwhile"),
    W("otherwise"),  W("support"),     W("develop"),    W("provide"),      W("consider"),
    W("remember"),   W("continue"),    W("believe"),    W("understand"),   W("describe"),
    W("explain"),    W("require"),     W("produce"),    W("include"),      W("appear"),
    W("follow"),     W("discover"),    W("prepare"),    W("receive"),      W("reduce"),
    W("suggest"),    W("mention"),     W("notice"),     W("accept"),       W("refuse"),
    W("avoid"),      W("compare"),     W("connect"),    W("collect"),      W("protect"),
    W("promise"),    W("deliver"),     W("discuss"),    W("arrange"),      W("attend"),
    W("belong"),     W("borrow"),      W("breathe"),    W("burn"),         W("carry"),
    W("catch"),      W("celebrate"),   W("choose"),     W("climb"),        W("combine"),
    W("complain"),
};
static_assert(sizeof(words) / sizeof(words[0]) == WORDS, "whole octaves");

/* Where in a sentence the writer is. */
struct sentence {
    uint32_t words_left; /* behind the next one */
    bool is_first;       /* the next word begins it */
};

/* Writes a word and what follows it, and returns the place behind. There is room for PUT_BYTES_MAX.
 * Bits of the draw from the lowest: 16 the octave, 8 the word in it, 4 whether a comma follows, 4
 * how long the next sentence is. */
static inline char *put_word(char *to, struct sentence *s, uint32_t draw)
{
    uint32_t octave = ((draw & 0xffff) * OCTAVES) >> 16;
    uint32_t first = UINT32_C(1) << octave; /* rank; ranks count from 1 */
    const struct word *word = &words[first + ((draw >> 16) & (first - 1)) - 1];
    bool is_last = s->words_left == 0;
    bool is_comma = ((draw >> 24) & 15) == 0;
    memcpy(to, word, WORD_BYTES);
    to[0] = (char)(to[0] - (s->is_first ? 'a' - 'A' : 0));
    to[word->bytes - 1] = is_last ? '.' : is_comma ? ',' : ' ';
    to[word->bytes] = ' ';
    s->words_left = is_last ? SENTENCE_WORDS_MIN - 1 + (draw >> 28) : s->words_left - 1;
    s->is_first = is_last;
    return to + word->bytes + (is_last || is_comma);
}

static inline char *put_pair(char *to, struct sentence *s, struct prng *p)
{
    uint64_t draw = prng_next(p);
    to = put_word(to, s, (uint32_t)draw);
    return put_word(to, s, (uint32_t)(draw >> 32));
}

void prose_write(struct prng *p, char *to, size_t bytes)
{
    char *end = to + bytes;
    struct prng stream = *p; /* may stay in a register: what is written could be *p */
    struct sentence s = {.words_left = SENTENCE_WORDS_MIN, .is_first = true};
    while (end - to >= PAIR_BYTES_MAX)
        to = put_pair(to, &s, &stream);
    while (to < end) {
        char last[PAIR_BYTES_MAX];
        size_t size = (size_t)(put_pair(last, &s, &stream) - last);
        size_t rest = (size_t)(end - to);
        memcpy(to, last, size < rest ? size : rest);
        to += size < rest ? size : rest;
    }
    if (bytes > 0)
        end[-1] = '.';
    *p = stream;
}

size_t prose_draw_bytes(const struct dist *d, struct prng stream)
{
    uint64_t bytes = dist_sample(d, &stream);
    return bytes < PROSE_BYTES_MAX ? (size_t)bytes : (size_t)PROSE_BYTES_MAX;
}
