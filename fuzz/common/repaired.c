/*
 * The mutator of targets with a fuzz_repair: the engine's own, and then checksums and lengths are
 * made to fit again (but for one mutation in eight). docs/reliability.md, "Fuzzing".
 */
#include "common/fuzz.h"

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t room, unsigned seed) {
    size_t mutated = LLVMFuzzerMutate(data, size, room);
    return seed % 8 == 0 ? mutated : fuzz_repair(data, mutated, room);
}
