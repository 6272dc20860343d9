// SPDX-License-Identifier: Apache-2.0
// What blocks of a comparison prove: looks, drop rule, interval, decision. A pure function of what was measured, so that
// another machine can compute a report's verdict again. The protocol is in docs/measuring.md.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "measure/block.h"
#include "measure/interval.h"

namespace klab::measure {

enum class Verdict { faster, slower, equivalent, inconclusive, unstable, clock_dependent };
KLAB_JSON_ENUM(Verdict, faster, slower, equivalent, inconclusive, unstable, clock_dependent)

/// The data are looked at when so many placements are done, and `alpha` is spent there.
struct Look {
  std::uint32_t placements = 0;
  double alpha = 0;
};
void to_json(Json& j, const Look& v);
void from_json(const Json& j, Look& v);

inline constexpr double kAlpha = 0.05;          // of a whole comparison
inline constexpr std::uint32_t kMostPlacements = 32, kFewestPlacements = 3;
/// Looks of a comparison that was planned for `placements`: at 8 and 16 (a tenth and three tenths of `alpha`) where more
/// follow, and at the end with all that is left.
std::vector<Look> looks_for(std::uint32_t placements, double alpha = kAlpha);

/// Fixed before the first block.
struct Design {
  double margin = 0.005;  // differences up to this do not matter
  double floor = 0;       // what two copies of one module differ by here; docs/measuring.md
  double most_dropped = 0.2;
  std::uint64_t seed = 1;  // of order and bootstrap
  double alpha = kAlpha;   // of all looks together; less for one of several finalists
  std::vector<Look> looks;
  double delta() const { return margin > floor ? margin : floor; }
};
void to_json(Json& j, const Design& v);
void from_json(const Json& j, Design& v);

struct Conclusion {
  Verdict verdict = Verdict::inconclusive;
  std::string reason;  // one sentence
  Interval interval;   // B's time over A's, at the look that ended it
  std::optional<Interval> cycles;  // the same of processor cycles, where every counted block has clocks
  std::uint32_t placements = 0;    // that the conclusion rests on
  std::uint32_t blocks = 0, blocks_dropped = 0;  // of these placements
  std::map<std::string, std::uint32_t> dropped;  // why, and how many
  std::uint32_t look = 0;     // number of the look, from 1; 0: none was reached
  bool decided = false;       // no further look is needed
  /// "at least 3.1 % faster": the bound of the interval that is nearer to 1. Empty unless faster or slower.
  std::string headline;
};
void to_json(Json& j, const Conclusion& v);
void from_json(const Json& j, Conclusion& v);

/// Of all blocks so far. `ended`: no more will come, so the last look is now, with all alpha that is left; else
/// `decided` says whether going on is needed. `interrupted`: nothing is claimed, whatever the blocks say.
Conclusion conclude(const Design& design, std::span<const Block> blocks, bool ended, bool interrupted = false);

/// The blocks of these placements that count, by placement.
Grouped counted(std::span<const Block> blocks, std::uint32_t placements, bool cycles = false);

/// faster, slower, equivalent or inconclusive.
Verdict decide(const Interval& interval, double delta);

/// Every block, with the design: what a report holds and `klab report --verify` computes again.
struct Comparison {
  Design design;
  std::vector<Block> blocks;
  bool interrupted = false;
  Conclusion conclusion;
};
void to_json(Json& j, const Comparison& v);
void from_json(const Json& j, Comparison& v);

/// Comparisons of several variants with one reference, each measured at kAlpha / their number: the levels of Holm (1979).
/// What claims something there stays; the others are looked at again at kAlpha / (how many are left) until nothing more is
/// claimed. The chance of any false claim among all of them is at most kAlpha, and who claims does so at no more than its own
/// design's alpha. Changes design and conclusion of those that are claimed at a later level; returns their indices.
inline constexpr std::size_t kMostFinalists = 8;
std::vector<std::size_t> settle_finalists(std::span<Comparison* const> all);

/// Computes the conclusion again from the blocks. Empty: it is the same; else what differs.
std::vector<std::string> verify(const Comparison& stored);

}  // namespace klab::measure
