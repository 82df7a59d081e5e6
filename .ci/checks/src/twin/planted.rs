//! Differences that are planted in the C: the comparison with the core must find each.

use std::fs;
use std::io;
use std::path::Path;

use super::equal::{Scratch, compare, compile};
use super::{GENERATED, generate, packets};

/// A name, the text that is replaced, and by what.
type Planted = (&'static str, &'static str, &'static str);

/// The files of the differences in [`IN_CLASSIFICATION`] and [`IN_PLAIN`].
const CLASSIFICATION: &str = "twin/classify.h";
const PLAIN: &str = "twin/plain.h";

/// Of the generated file.
const IN_DECIDERS: &[Planted] = &[
    ("the limit admits one packet more", "backlog.packets < self->packets", "backlog.packets <= self->packets"),
    ("a byte costs a unit more", "return 8000000000ull;", "return 8000000001ull;"),
    ("the bucket overflows by an eighth of a byte", "(earned >= room)", "(earned >= room + 1000000000ull)"),
    ("the last token is kept", "wanted & (self->level >= cost)", "wanted & (self->level > cost)"),
    ("the deadline is rounded down", "div_ceil_u64(missing, t_6)", "missing / t_6"),
    (
        "a nanosecond is earned twice",
        "self->updated = max_u64(self->updated, now);",
        "self->updated = max_u64(self->updated, now) - 1ull;",
    ),
    (
        "a change of rate counts for the past",
        "bucket_token_bucket_update(self, now);\n\tself->rate",
        "(void)now;\n\tself->rate",
    ),
    ("the target is missed by a nanosecond", "waited < params->target", "waited <= params->target"),
    ("a queue of one MTU is dropped from", "left <= params->mtu", "left < params->mtu"),
    ("an episode starts anew after two drops", "delta > 1u", "delta > 2u"),
    ("an episode is remembered for too long", "params->interval, 16ull", "params->interval, 32ull"),
    ("a mark does not count as a drop", "if (call->phase == CODEL_PHASE_EPISODE)", "if (false && call)"),
    ("an episode forgets where it began", "self->last_count = self->count;", "self->last_count = 0u;"),
    ("fewer packets are dropped for their age", "codel_most_drops_a_call() / 2u", "codel_most_drops_a_call() / 4u"),
    ("a call drops one packet more", "return 32u;", "return 33u;"),
    ("the generator rotates by one more", "((u64)(self->high >> 58u))", "((u64)(self->high >> 58u) + 1u)"),
    ("the generator loses a carry", "((u64)(self->low < product))", "((u64)(self->low <= product && false))"),
    (
        "the gentle slope is that of the cliff",
        "mul_high_u64(over_2, self->gentle_slope)",
        "mul_high_u64(over_2, self->slope)",
    ),
    (
        "a drop does not restart the count",
        "if (hit) {\n\t\tself->since = 0ull;",
        "if (false) {\n\t\tself->since = 0ull;",
    ),
    (
        "packets are marked where they are gently dropped",
        "if (t_10.kind == RED_ZONE_CHANCE)",
        "if (t_10.kind != RED_ZONE_BELOW)",
    ),
    ("the probability falls to a half", "max_p / 10ull)) * 9ull", "max_p / 10ull)) * 5ull"),
    ("the step is not smaller for small probabilities", "= 512ull;", "= 256ull;"),
    ("a high probability rises at once", "pie_one() / 50ull", "pie_one() / 5ull"),
    (
        "the burst allowance does not end",
        "units_span_saturating_sub(self->burst, params->update)",
        "units_span_saturating_sub(self->burst, 0ull)",
    ),
    ("a drop comes too soon after another", "pie_one() / 100ull)) * 85ull", "pie_one() / 100ull)) * 84ull"),
    (
        "a turn is for the quantum of a smaller packet",
        "max_u64(self->quantum, self->largest)",
        "(self->quantum + 0 * self->largest)",
    ),
    ("a packet of all that is left waits a turn", "(t_3 <= allowance->deficit)", "(t_3 < allowance->deficit)"),
    ("what is left is kept when a queue is empty", "allowance->deficit = 0ull;", "allowance->deficit += 0ull;"),
    ("a debt of nothing ends no turn", "((*self) <= 0ll)", "((*self) < 0ll)"),
    ("the hash changes under queues that are not empty", "(self->old > 0ull)", "(false && self->old > 0ull)"),
    ("the hash is one that was", "((u64)(self->epoch - 1ull))", "((u64)(self->epoch - 0ull))"),
    (
        "a new queue that runs empty stays new",
        "((self == FLOW_QUEUES_PLACE_NEW) && has_old)",
        "((self == FLOW_QUEUES_PLACE_NEW) && has_old && false)",
    ),
    (
        "a flow at the border is an elephant",
        "(self->length <= border->longest_mouse)",
        "(self->length < border->longest_mouse)",
    ),
    (
        "a pair of hosts begins without its burst",
        "bucket_token_bucket_full(rule->rate, rule->threshold, now)",
        "bucket_token_bucket_full(rule->rate, rule->threshold / 2, now)",
    ),
    ("a mouse counts for half of its size", "saturating_add_s64(t_3, t_2)", "saturating_add_s64(t_3, t_2 / 2)"),
    ("elephants save up more than their credit", "cost), self->least)", "cost), self->least * 2)"),
    ("an elephant that is just due waits", "t_3 = (t_2 >= t);", "t_3 = (t_2 > t);"),
    ("one elephant more is not dropped by chance", "elephants.packets < meredt", "elephants.packets <= meredt"),
    (
        "a length of virtual time is rounded down",
        "((u128)div_ceil_u64(((u64)(rest << (fbq_places() & 63u))), weight))",
        "((u128)(((u64)(rest << (fbq_places() & 63u))) / weight))",
    ),
    ("a flow keeps more than it may save", "return max_u128(start, t);", "return start + 0 * t;"),
    ("a minimum leaves a debt of the share", "(min_u128(start, now) + length)", "(start + 0 * now + length)"),
    ("a minimum leaves a debt of its own", "self->level = max_s64(self->level, 0ll);", "self->level += 0ll;"),
    ("buffer is kept where nothing is granted", "(unpromised < rate)", "(unpromised <= rate)"),
    ("a queue of exactly its part is refused", "(quarters, shares) <= t_2)", "(quarters, shares) < t_2)"),
    (
        "a slow class borrows more",
        "clamp_u64(t, 1000ull, shares_weight_max())",
        "clamp_u64(t, 1000000ull, shares_weight_max())",
    ),
    ("priorities do not count", "(((u128)((u32)key)) << 64u)", "(((u128)((u32)key)) << 0u)"),
    ("a minimum has a smaller part of the buffer", "max_u64(t_5, 1ull))", "max_u64(t_5, 1ull) * 2)"),
    ("a size class has twice the lengths", "((u32)(octave - 2u)) * 8u)", "((u32)(octave - 2u)) * 4u)"),
];

const IN_CLASSIFICATION: &[Planted] = &[
    ("a port of zero is none", "? 1 << 16 | fields->low[field]", "? fields->low[field]"),
    ("one extension header fewer is followed", "#define TWIN_EXTENSIONS 12", "#define TWIN_EXTENSIONS 11"),
    ("one tag more is followed", "#define TWIN_TAGS 8", "#define TWIN_TAGS 9"),
    ("an authentication header has words of eight bytes", "(header[1] + 2u) * 4", "(header[1] + 2u) * 8"),
    ("a short authentication header is followed", "size < 12", "size < 8"),
    ("ports are read of a later fragment", "if ((place & 0x1fff) == 0)", "if ((place & 0x1fff) != 1)"),
    ("an atomic fragment is a fragment", "|| (place & 1))", "|| true)"),
    ("the inner of two fragments counts", "if (!fields->is_fragment && (", "if ((1 || fields->is_fragment) && ("),
    ("a stated length of zero is one", "stated == 0 || stated > length ?", "stated > length ?"),
    ("options of IPv4 are not skipped", "at += header;", "at += 20;"),
    ("a session of PPPoE is of IPv4 alone", "type == 0x0021 || type == 0x0057", "type == 0x0021"),
    ("the code point has seven bits", "service >> 2)", "service >> 1)"),
    ("an interval begins after its first value", "middle + 1) <= low)", "middle + 1) < low)"),
    ("the upper half of an address does not count", "start < high ||", "(start < high && false) ||"),
    ("a mark is not masked", "fields->low[field] & twin_number(rules, at + 1)", "fields->low[field]"),
    ("a rule of one condition does not count", "best = min_u32(best, found);", "best = min_u32(best, U32_MAX);"),
    ("the last group does not count", "return min_u32(best, state);", "return best;"),
    ("a run of classes is shorter", "class - low <= span ?", "class - low < span ?"),
    ("the second place of an exception is not tried", "for (u32 i = 0; i < 2; i++) {", "for (u32 i = 0; i < 1; i++) {"),
    ("the default is the first rule's", "at + (best + 1) * 2 : at;", "at + best * 2 : at;"),
    (
        "the class is not in the key",
        "twin_flow_key(rules, fields) ^ twin_number",
        "twin_flow_key(rules, fields) + 0 * twin_number",
    ),
    ("the hash has a round less", "\ttwin_hash_round(hash);\n\treturn hash->a", "\treturn hash->a"),
    (
        "a pair of hosts has no direction",
        "twin_host_key(rules, fields, TWIN_DESTINATION));\n\t\treturn",
        "twin_host_key(rules, fields, TWIN_SOURCE));\n\t\treturn",
    ),
    ("the outermost control group counts", "if (place >= *first)", "if (place == U32_MAX)"),
    ("an unknown user is user zero", "kind << 56 | known,", "kind << 56 | 1,"),
    (
        "promises are looked up in the rules",
        "twin_find_result(rules + second, fields)",
        "twin_find_result(rules, fields)",
    ),
];

/// Of packets as most are, and what is kept of them.
const IN_PLAIN: &[Planted] = &[
    ("a first fragment is whole", "(first & 0x3fff) == 0", "(first & 0x1fff) == 0"),
    ("options are none", "first >> 56 == 0x45", "first >> 60 == 4"),
    ("a packet without ports has some", "(stated == 0 || stated >= 24)", "(stated == 0 || stated >= 20)"),
    ("classes outlive their rules", "return memory->rules << 32 | mark;", "return (0 & memory->rules) | mark;"),
    (
        "a mark is that of a packet before",
        "return memory->rules << 32 | mark;",
        "return memory->rules << 32 | (0 & mark);",
    ),
    ("an owner is that of a packet before", "if (!twin_uses(rules, TWIN_UID) && ", "if ("),
    (
        "a destination is that of a packet before",
        "kept->plain.destination[0] == plain->destination[0]",
        "(kept->plain.destination[0] | plain->destination[0] | 1)",
    ),
];

/// Of the flows of classes.
const IN_FLOWS: &[Planted] = &[
    (
        "what is borrowed has no length",
        "{ fbq_borrow_length(class->size, class->bucket.rate), class->size",
        "{ (u128)0 * class->size, class->size",
    ),
    (
        "all flows have the weight of one",
        "if (last->bytes != bytes || last->by != weight)",
        "if (last->bytes != bytes)",
    ),
    (
        "a packet has the length of one before",
        "if (last->bytes != bytes || last->by != weight)",
        "if (last->by != weight)",
    ),
    ("a class borrows as it did at another rate", " || last->by != class->bucket.rate)", ")"),
    ("a minimum never leads", "->key <= base)", "->key < base && false)"),
    (
        "a minimum of all that is left waits",
        "flow->minimum <= twin_fbq_unpromised",
        "flow->minimum < twin_fbq_unpromised",
    ),
    ("a flow that has been idle for long stays", ">= options->idle_timeout;", "> options->idle_timeout * 2;"),
    ("other classes are not visited", "if (twin_fbq_class_of(fbq, fbq->cursor)->unsettled)", "if (false)"),
];

/// Of promises.
const IN_PROMISES: &[Planted] = &[
    ("a flow keeps its profile", "if (flow->profile != profile) {", "if (false) {"),
    ("a flow keeps its promise", "if (flow->conditions != options->conditions)", "if (false)"),
    (
        "a promise that ended keeps its flows",
        "twin_fbq_ask_again(options, fbq, held, number);\n\t}",
        "(void)held;\n\t}",
    ),
    (
        "a minimum of the profile is forgotten",
        "minimum = max_u64(minimum, twin_fbq_promise_of",
        "minimum = max_u64(0, twin_fbq_promise_of",
    ),
    ("what is held is not released", "if (slots->held != 0)", "if (slots->held > 4)"),
    ("nothing is held again", "if (fbq_slots_end(slots) && minimum", "if (fbq_slots_end(slots) && 1 + minimum"),
];

/// Of the order in which classes are served.
const IN_SERVICE: &[Planted] = &[
    ("what is kept for minimums is kept from them", "\t\tkept = 0;", "\t\tkept += 0;"),
    ("the first that is due always sends", "->priority != fbq->best_priority)", "->priority > U32_MAX)"),
    (
        "a class that was empty may borrow more",
        "class->borrowed_until = max_u128(class->borrowed_until, fbq->borrow_now);",
        "class->borrowed_until += 0;",
    ),
    ("lateness is not made up for", "saturating_sub_u64(now, options->catch_up)", "(now + 0 * options->catch_up)"),
    ("the oldest minimums wait again first", "TWIN_QUEUES - 1 - older", "older"),
    ("a packet alone does not wait for its class", "if (!own.some || own.value != now)", "if (!own.some)"),
    ("a packet alone does not wait for the total", "if (!all.some || all.value != now)", "if (!all.some)"),
    ("a packet alone has no minimum", "flow->profile != profile || flow->granted)", "flow->profile != profile)"),
    (
        "a packet alone is not charged to its class",
        "bucket_token_bucket_charge(&class->bucket, then, size);",
        "(void)class;",
    ),
    (
        "a packet alone is not queued when another arrives",
        "if (fbq->alone != 0)\n\t\ttwin_fbq_queue_alone(options, fbq, held);",
        "fbq->alone = 0;",
    ),
    ("a flow of a packet alone has been idle before", "if (fbq->idle.tail != number) {", "if (false) {"),
    (
        "a flow that is behind saves nothing",
        "if (flow->start < twin_fbq_class_of(fbq, flow->class)->virtual_now)",
        "if (flow->start == 0)",
    ),
];

/// Of orders by keys.
const IN_ORDERS: &[Planted] = &[
    ("equal keys are in the other order", "second->key == first->key && b < a", "second->key == first->key && b > a"),
    (
        "an order forgets where it was joined",
        "twin_node_of(orders, child)->up = up;",
        "twin_node_of(orders, child)->up += 0 * up;",
    ),
];

/// All, by the file whose text is replaced.
pub const DIFFERENCES: &[(&str, &[Planted])] = &[
    (GENERATED, IN_DECIDERS),
    (CLASSIFICATION, IN_CLASSIFICATION),
    (PLAIN, IN_PLAIN),
    ("twin/fbq.h", IN_FLOWS),
    ("twin/promises.h", IN_PROMISES),
    ("twin/fbc.h", IN_SERVICE),
    ("twin/orders.h", IN_ORDERS),
];

/// Plants each difference and compares `operations` operations, several times if need be. A line for each that was not found.
pub fn planted(root: &Path, operations: u64) -> io::Result<Vec<String>> {
    let mut missed = Vec::new();
    for (file, differences) in DIFFERENCES {
        for planted in *differences {
            match find(root, file, planted, operations)? {
                Ok(place) => println!("{}: found, {place}", planted.0),
                Err(problem) => missed.push(format!("{}: {problem}", planted.0)),
            }
        }
    }
    Ok(missed)
}

/// Scripts that are tried, one after the other: some differences show with few options.
const SEEDS: u64 = 4;

/// Plants one difference in the file `path`. Returns where it was found, or why not.
pub fn find(root: &Path, path: &str, (_, from, to): &Planted, operations: u64) -> io::Result<Result<String, String>> {
    let text = if path == GENERATED { generate(root)? } else { fs::read_to_string(root.join(path))? };
    let places = text.matches(from).count();
    if places != 1 {
        return Ok(Err(format!("its text stands {places} times in {path}")));
    }
    let scratch = Scratch::new("twin-planted")?;
    let folder = &scratch.0;
    // A file is looked for beside the one that includes it first.
    for file in fs::read_dir(root.join("twin"))? {
        let file = file?;
        if file.file_type()?.is_file() {
            fs::copy(file.path(), folder.join(file.file_name()))?;
        }
    }
    fs::write(folder.join(Path::new(path).file_name().unwrap_or_default()), text.replace(from, to))?;
    let program = folder.join("host");
    compile(root, folder, &program)?;
    for seed in 1..=SEEDS {
        let found = if path == CLASSIFICATION || path == PLAIN {
            packets::compare(&program, operations, seed).map(|compared| compared.0)
        } else {
            compare(&program, operations, seed)
        };
        match found {
            Ok(Some(difference)) => return Ok(Ok(difference.0.split(',').next().unwrap_or_default().to_owned())),
            Ok(None) => {}
            // A call that does not end is one, too.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(Ok(error.to_string())),
            Err(error) => return Err(error),
        }
    }
    Ok(Err(format!("not found in {SEEDS} times {operations} operations")))
}
