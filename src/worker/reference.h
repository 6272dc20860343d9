// SPDX-License-Identifier: Apache-2.0
// What the baseline does to the loaded capture: what it writes, what comes out, what varies, and the starting
// images that variants are judged from. The oracle of all validation here. Not here: judging variants
// (judge_variant.h).
#pragma once
#include <map>
#include <string>
#include <vector>

#include "validate/mutate.h"
#include "validate/oracle.h"
#include "validate/reference_file.h"
#include "worker/custom_checker.h"
#include "worker/outcome_check.h"
#include "worker/probe.h"
#include "worker/variant.h"

namespace klab::worker {

/// A mutated input on which the baseline is known to run, and what it gives there.
struct MutatedCase {
  validate::Mutation mutation;
  std::vector<kernels::Hash> after;                  // of all chunks
  std::map<ChunkId, validate::ByteBuffer> expected;  // of chunks that the baseline changed there
  std::optional<CustomChecker> checker;              // level custom
  /// Images 0 the mutated input, 1 the pre-state, of the region's and the written chunks; empty when they are
  /// too large to keep on the device.
  std::optional<Restorer> states;
};

struct Reference {
  ChunkList written;          // chunks; the vectors below follow its order
  std::vector<Image> images;  // [0] the pre-state; then, if anything may be poisoned, poisons 0 and 1
  Image expected;             // after the baseline
  std::vector<validate::Mask> written_bytes, write_only, varying, dependent;
  validate::Comparator comparator;
  std::vector<validate::Mask> ignore;          // what varies and no tolerance covers
  std::vector<kernels::Hash> expected_hashes;  // of `expected` with `ignore` blanked
  std::uint64_t varying_elements = 0, written_elements = 0;  // varying: those in `ignore`
  std::string captured_difference;  // how the baseline here differs from the captured outcome; empty: not
  std::vector<std::string> notes;
  std::map<std::string, bool> oracle;  // over all inputs below
  bool mutation_needed = false;        // the captured input alone lets a bad variant pass
  std::string unusable;                // the captured kernel itself does not pass the tolerance; empty: it does
  std::string tolerance_refused;       // why the tolerance is too loose, with the figures
  std::optional<CustomChecker> checker;  // level custom, on the captured input
  std::string checker_failed;            // why it cannot be asked
  std::map<std::uint32_t, std::vector<double>> references;  // float64 values of a region
  std::vector<MutatedCase> cases;
  std::uint32_t mutations_dropped = 0;

  // On the device, for as long as the placement lasts.
  std::optional<Restorer> restorer;  // of `images`
  std::optional<Blanker> blanker;    // of `ignore`
  /// Of every launch; empty when there is no room for it, or when what is right is the checker's to say.
  std::optional<OutcomeCheck> check;
  /// What the baseline itself does to redzones: nothing that it does can be held against a variant.
  bool writes_redzones = false, reads_redzones = false;
  bool unchecked_values = false;  // floating-point elements that only the host can compare

  bool poisoned() const { return images.size() > 1; }
};

struct ReferenceOptions {
  bool full = true;  // images, variation and oracle; else only what is written and what comes out
  std::uint32_t seed = 1;
  replay::Checks checks = {};
  std::uint32_t dispatch = 0;  // whose types of `checks` are meant
};

/// Runs the baseline. The capture is in its pre-state before and after. `probed` may be empty (nothing is
/// poisoned). Errors: those of running.
Result<Reference> make_reference(Loaded& loaded, const Variant& baseline, const Probed& probed,
                                 const ReferenceOptions& options, const Deadline& deadline);

/// Finds mutated inputs that let Klab's bad variants be caught where the captured one does not, and one more
/// where floats can be changed. Fills in oracle, cases and what was dropped.
Status add_mutated_cases(Reference& reference, Loaded& loaded, const Variant& baseline,
                         const replay::Request& request, const Deadline& deadline);

/// Both states of a mutated case as device copies, when they are small enough: they save going through the host.
Status keep_states(const Reference& r, Loaded& loaded, MutatedCase& c);

/// Makes `restorer` and `check`. Errors: out_of_memory (of the restorer).
Status put_on_device(Reference& reference, Loaded& loaded);

/// Puts the pre-state back: written chunks from the device, whatever else changed from the host. Returns what
/// that was.
Result<ChunkList> put_back(const Reference& reference, Loaded& loaded, const Deadline& deadline);

/// A chunk as a mutation leaves it; the pre-state where it is no target.
Result<validate::ByteBuffer> mutated(const Loaded& loaded, ChunkId id, const validate::Mutation& mutation,
                                     const validate::Layout& layout);
/// Chunks of the mutation's regions.
ChunkList chunks_of(const Loaded& loaded, const validate::Mutation& mutation);
/// Uploads the mutated regions; make_pristine() takes them back.
Status apply_mutation(Loaded& loaded, const validate::Mutation& mutation, const validate::Layout& layout);

/// Makes the oracle ask what a numeric level asks of `chunks`. All must outlive `in`.
void use_check(const Reference& r, const Loaded& loaded, const ChunkList& chunks, validate::OracleInput& in);

/// The element types of the loaded dispatch as the request has them.
validate::Layout layout_of(const Loaded& loaded, const replay::Checks& checks, std::uint32_t dispatch);

/// Seconds that a launch may take before it counts as hanging: the first compiles.
inline constexpr double kLaunchTimeout = 60;

}  // namespace klab::worker
