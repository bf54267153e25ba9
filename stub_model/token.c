/* token: see token.h. */
#include "stub_model/token.h"

#include <assert.h>
#include <string.h>

enum { WORDS = 128 };

/* With the space behind it; copied as one block, whatever its length. */
struct word {
    char text[TOKEN_BYTES_MAX - 1];
    uint8_t bytes;
};
static_assert(sizeof(struct word) == TOKEN_BYTES_MAX, "one word of the machine");

#define W(word)                                                                                    \
    {                                                                                              \
        word " ", sizeof(word)                                                                     \
    }

/* All equally likely: what they compress to is then known (7 bits a token), and their average
 * length is that of the table. */
static const struct word words[] = {
    W("a"),    W("of"),   W("to"),   W("in"),   W("is"),   W("it"),   W("on"),    W("be"),
    W("at"),   W("by"),   W("or"),   W("we"),   W("an"),   W("no"),   W("if"),    W("so"),
    W("up"),   W("do"),   W("my"),   W("me"),   W("us"),   W("go"),   W("as"),    W("he"),
    W("am"),   W("ok"),   W("the"),  W("and"),  W("for"),  W("you"),  W("was"),   W("are"),
    W("not"),  W("but"),  W("can"),  W("all"),  W("has"),  W("had"),  W("our"),   W("out"),
    W("one"),  W("day"),  W("get"),  W("how"),  W("new"),  W("now"),  W("see"),   W("two"),
    W("way"),  W("who"),  W("did"),  W("its"),  W("let"),  W("may"),  W("put"),   W("say"),
    W("she"),  W("too"),  W("use"),  W("any"),  W("ask"),  W("end"),  W("far"),   W("few"),
    W("got"),  W("off"),  W("old"),  W("own"),  W("pay"),  W("per"),  W("run"),   W("set"),
    W("six"),  W("ten"),  W("top"),  W("try"),  W("yes"),  W("yet"),  W("add"),   W("ago"),
    W("air"),  W("big"),  W("box"),  W("bus"),  W("buy"),  W("car"),  W("cut"),   W("due"),
    W("eye"),  W("fit"),  W("fly"),  W("her"),  W("him"),  W("act"),  W("led"),   W("low"),
    W("bit"),  W("sum"),  W("row"),  W("that"), W("with"), W("this"), W("from"),  W("they"),
    W("have"), W("here"), W("will"), W("your"), W("what"), W("been"), W("more"),  W("when"),
    W("than"), W("some"), W("time"), W("only"), W("also"), W("then"), W("just"),  W("most"),
    W("into"), W("them"), W("item"), W("like"), W("left"), W("very"), W("order"), W("today"),
};
static_assert(sizeof(words) / sizeof(words[0]) == WORDS, "seven bits of a draw choose one");

size_t token_write(char to[TOKEN_BYTES_MAX], struct prng *p, bool is_last)
{
    const struct word *word = &words[prng_next(p) % WORDS];
    memcpy(to, word, TOKEN_BYTES_MAX);
    if (is_last)
        to[word->bytes - 1] = '.';
    return word->bytes;
}
