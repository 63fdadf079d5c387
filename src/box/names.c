/* SPDX-License-Identifier: Apache-2.0 */
/*
 * names.c: names for boxes that were given none: an adjective and an animal.
 */
#include "base/random.h"
#include "base/str.h"
#include "box/box.h"

#define PLAIN_ATTEMPTS 4

static const char *const adjectives[] = {
    "amber",  "ample",  "brave",  "brisk",  "bright", "calm",   "clever", "cosy",
    "crisp",  "daring", "eager",  "early",  "fair",   "famous", "fast",   "fine",
    "fond",   "free",   "fresh",  "gentle", "glad",   "golden", "grand",  "green",
    "happy",  "hardy",  "honest", "humble", "jolly",  "keen",   "kind",   "lively",
    "loyal",  "lucky",  "mellow", "merry",  "mild",   "modest", "neat",   "nimble",
    "noble",  "patient", "plain", "polite", "proud",  "quick",  "quiet",  "rapid",
    "ready",  "rosy",   "sharp",  "shy",    "silent", "silver", "simple", "smart",
    "steady", "sunny",  "swift",  "tidy",   "vivid",  "warm",   "wise",   "young",
};

static const char *const animals[] = {
    "ant",    "badger", "bat",    "bear",   "beaver",  "bee",     "bison",   "camel",
    "cat",    "crane",  "cricket", "crow",  "deer",    "dolphin", "dove",    "duck",
    "eagle",  "elk",    "falcon", "ferret", "finch",   "fox",     "frog",    "gecko",
    "goat",   "goose",  "hare",   "hawk",   "heron",   "horse",   "ibex",    "jay",
    "koala",  "lark",   "lemur",  "lion",   "llama",   "lynx",    "magpie",  "mole",
    "moose",  "mouse",  "newt",   "otter",  "owl",     "panda",   "pigeon",  "puffin",
    "quail",  "rabbit", "raven",  "robin",  "salmon",  "seal",    "shrew",   "snail",
    "sparrow", "stork", "swan",   "tapir",  "tiger",   "toad",    "walrus",  "wren",
};

char *bx_box_random_name(unsigned attempt)
{
    unsigned char r[4];
    bx_random(r, sizeof(r));
    const char *adjective = adjectives[r[0] % BX_ARRAY_SIZE(adjectives)];
    const char *animal = animals[r[1] % BX_ARRAY_SIZE(animals)];
    if (attempt < PLAIN_ATTEMPTS) {
        return bx_asprintf("%s_%s", adjective, animal);
    }
    return bx_asprintf("%s_%s_%u", adjective, animal, (unsigned)r[2] << 8 | r[3]);
}
