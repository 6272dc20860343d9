// SPDX-License-Identifier: Apache-2.0
// Does a report agree with itself? Everything in it is foreign: bounded before it is computed with.
#include <algorithm>

#include <fmt/format.h>

#include "base/hash.h"
#include "measure/comparison.h"
#include "ops/report.h"
#include "ops/report_fields.h"

namespace klab::ops {
namespace {

using namespace fields;
using measure::Block;
using measure::Letter;

constexpr std::uint32_t kMostPlacementNumber = 4096;
constexpr std::size_t kMostLooks = 8, kMostLines = 12;
constexpr double kSame = 1e-9;  // relative: what printing and reading a number may lose

bool same(double a, double b) { return std::abs(a - b) <= kSame * std::max({1.0, std::abs(a), std::abs(b)}); }

bool claims(std::string_view speed) {
  return speed == "faster" || speed == "slower" || speed == "equivalent";
}

/// The checks of one report; each member function is one of docs/report.md.
class Verification {
 public:
  explicit Verification(const Json& report) : report_(report), speed_(text(at(report, "verdict", "speed"))) {}

  std::vector<ReportCheck> run() {
    if (!schema()) return std::move(checks_);
    seal();
    correctness();
    conditions();
    identity();
    if (blocks()) {
      conclusion();
      speed();
      floor();
      dropped();
      samples("a");
      samples("b");
    }
    return std::move(checks_);
  }

 private:
  using Lines = std::vector<std::string>;

  /// `wrong` empty: ok.
  bool add(std::string name, const Lines& wrong, std::string fine) {
    std::string detail;
    for (std::size_t i = 0; i < wrong.size() && i < kMostLines; ++i)
      detail += (i == 0 ? "" : "; ") + wrong[i];
    if (wrong.size() > kMostLines) detail += fmt::format("; and {} more", wrong.size() - kMostLines);
    checks_.push_back({std::move(name), wrong.empty() ? Agreement::ok : Agreement::failed,
                       wrong.empty() ? std::move(fine) : detail});
    return wrong.empty();
  }
  void skip(std::string name, std::string why) {
    checks_.push_back({std::move(name), Agreement::skipped, std::move(why)});
  }

  bool schema() {
    static constexpr std::string_view kMembers[] = {
        "schema",     "klab",         "made_at",    "bundle", "kernel", "device",
        "conditions", "address_mode", "address_by", "a",      "b",      "verdict",
        "validation", "comparison",   "samples",    "notes",  "seal"};
    static constexpr std::string_view kObjects[] = {"bundle", "kernel",  "conditions", "a",
                                                    "b",      "verdict", "samples"};
    Lines wrong;
    if (!report_.is_object()) {
      wrong.push_back("it is not an object");
      return add("schema", wrong, "");
    }
    if (at(report_, "schema") != kReportSchema)
      wrong.push_back(fmt::format("the schema is {}, not \"{}\"",
                                  at(report_, "schema").dump(-1, ' ', false, Json::error_handler_t::replace),
                                  kReportSchema));
    for (const auto& [name, value] : report_.items())
      if (std::find(std::begin(kMembers), std::end(kMembers), name) == std::end(kMembers))
        wrong.push_back(
            fmt::format("there is a member \"{}\" that the schema does not have", name.substr(0, 60)));
    for (const std::string_view name : kObjects)
      if (!at(report_, name).is_object()) wrong.push_back(fmt::format("\"{}\" is not an object", name));
    validate::Correctness correctness;
    validate::Speed speed;
    if (!from_string(text(at(report_, "verdict", "correctness")), correctness))
      wrong.push_back("there is no such correctness: " +
                      text(at(report_, "verdict", "correctness")).substr(0, 60));
    if (!from_string(speed_, speed)) wrong.push_back("there is no such verdict: " + speed_.substr(0, 60));
    for (const char* name : {"a", "b"}) {
      const Json& times = at(report_, "samples", name, "times_ns");
      if (!times.is_array() || times.size() > kMostReportSamples)
        wrong.push_back(
            fmt::format("the samples of {} are not a list of at most {}", name, kMostReportSamples));
      else if (numbers(times).size() != times.size())
        wrong.push_back(fmt::format("a sample of {} is not a number", name));
    }
    if (const Json& list = at(report_, "comparison", "blocks");
        list.is_array() && list.size() > kMostReportBlocks)
      wrong.push_back(fmt::format("it has {} blocks; at most {} are read", list.size(), kMostReportBlocks));
    return add("schema", wrong, std::string(kReportSchema));
  }

  void seal() {
    const std::string stored = text(at(report_, "seal"));
    if (stored.empty()) return skip("seal", "it has none");
    Json content = report_;
    content.erase("seal");
    const std::string computed =
        to_string(hash_text(content.dump(-1, ' ', false, Json::error_handler_t::replace)));
    add("seal",
        stored == computed
            ? Lines{}
            : Lines{fmt::format("the content has the hash {}, the seal says {}: it was changed after it "
                                "was written",
                                computed, stored.substr(0, 64))},
        "nothing was changed since it was written");
  }

  void correctness() {
    const std::string word = text(at(report_, "verdict", "correctness"));
    Lines wrong;
    if (word != "correct" && speed_ != "none")
      wrong.push_back(fmt::format("it says \"{}\" of a variant that is \"{}\"", speed_, word));
    const Json& validation = at(report_, "validation");
    if (validation.is_object() && word != "failed" && text(at(validation, "correctness")) != word)
      wrong.push_back(fmt::format("the verdict says \"{}\", the validation \"{}\"", word,
                                  text(at(validation, "correctness"))));
    if (word == "correct") {
      if (!validation.is_object()) wrong.push_back("it says \"correct\" and has no validation");
      if (const Json& inputs = at(validation, "inputs"); inputs.is_array())
        for (const Json& one : inputs)
          if (at(one, "agrees").is_boolean() && !flag(at(one, "agrees")))
            wrong.push_back("on one input it did not agree: " + text(at(one, "what")).substr(0, 120));
      if (const Json& oracle = at(validation, "oracle");
          oracle.is_object() && text(at(validation, "level")) != "custom")
        if (!oracle.empty() &&
            std::none_of(oracle.begin(), oracle.end(), [](const Json& caught) { return flag(caught); }))
          wrong.push_back("none of Klab's own wrong variants was caught by its check");
    }
    add("correctness", wrong, speed_ == "none" ? word + ", and no speed is claimed" : word);
  }

  void conditions() {
    const Json &asked = at(report_, "conditions", "asked"), &ran = at(report_, "conditions", "ran");
    if (!asked.is_object() || !ran.is_object()) {
      if (claims(speed_))
        add("conditions", {"a speed is claimed, and its conditions are not there"}, "");
      else
        skip("conditions", "they are not there");
      return;
    }
    Lines wrong;
    for (const char* name : {"mode", "cache", "memory"})
      if (at(asked, name) != at(ran, name))
        wrong.push_back(
            fmt::format("{}: asked {}, ran {}", name, text(at(asked, name)), text(at(ran, name))));
    if (number_or(at(asked, "flush_mb"), 0) != 0 && at(asked, "flush_mb") != at(ran, "flush_mb"))
      wrong.push_back(
          fmt::format("flush: asked {}, ran {}", text(at(asked, "flush_mb")), text(at(ran, "flush_mb"))));
    add("conditions", wrong,
        fmt::format("{}, cache {}: what was asked is what ran", text(at(ran, "mode")),
                    text(at(ran, "cache"))));
  }

  void identity() {
    const Json &a = at(report_, "a"), &b = at(report_, "b");
    const std::string code = text(at(a, "code_hash"));
    if (code.empty() || text(at(b, "code_hash")).empty()) {
      if (speed_ == "identical")
        add("identity", {"it says \"identical\", and the hashes of the code are not there"}, "");
      else
        skip("identity", "the hashes of the code are not there");
      return;
    }
    const bool same_code = code == text(at(b, "code_hash")), same_launch = at(a, "launch") == at(b, "launch");
    Lines wrong;
    if (speed_ == "identical" && !same_code) wrong.push_back("it says \"identical\", and the code differs");
    if (speed_ == "identical" && !same_launch)
      wrong.push_back("it says \"identical\", and the launches differ");
    if (same_code && same_launch && speed_ != "identical" && speed_ != "none")
      wrong.push_back(fmt::format("code and launch are equal, and it says \"{}\"", speed_));
    add("identity", wrong,
        same_code && same_launch ? "code and launch are equal"
        : same_code              ? "the launches differ"
                                 : "the code differs");
  }

  /// False: there is nothing to compute with.
  bool blocks() {
    const Json& j = at(report_, "comparison");
    if (!j.is_object()) {
      if (speed_ != "none" && speed_ != "identical")
        return add("blocks", {fmt::format("it says \"{}\", and there is no comparison", speed_)}, "");
      skip("blocks", speed_ == "identical" ? "equal code is not timed" : "it was not timed");
      return false;
    }
    Lines wrong;
    auto decoded = decode_json<measure::Comparison>(j, "the comparison");
    if (!decoded) return add("blocks", {decoded.error().what}, "");
    comparison_ = std::move(*decoded);
    const measure::Design& d = comparison_.design;
    if (d.looks.empty() || d.looks.size() > kMostLooks)
      wrong.push_back(fmt::format("it has {} looks", d.looks.size()));
    std::uint32_t before = 0;
    double alpha = 0;
    for (const measure::Look& look : d.looks) {
      if (look.placements <= before || look.placements > kMostPlacementNumber || !(look.alpha > 0) ||
          look.alpha > measure::kAlpha)
        wrong.push_back(fmt::format("a look at {} placements that spends {:g}", look.placements, look.alpha));
      before = look.placements;
      alpha += look.alpha;
    }
    if (!(d.alpha > 0 && d.alpha <= measure::kAlpha))
      wrong.push_back(fmt::format("its alpha is {:g}, not within 0 and {:g}", d.alpha, measure::kAlpha));
    if (alpha > d.alpha + kSame) wrong.push_back(fmt::format("its looks spend {:g}, more than {:g}", alpha, d.alpha));
    if (!(d.most_dropped >= 0 && d.most_dropped <= 0.2))
      wrong.push_back(
          fmt::format("it would count with {:g} of its blocks dropped; 0.2 is the most", d.most_dropped));
    const Block* last = nullptr;
    for (std::size_t i = 0; i < comparison_.blocks.size(); ++i) {
      const Block& b = comparison_.blocks[i];
      if (b.placement >= kMostPlacementNumber)
        wrong.push_back(fmt::format("block {} is of placement {}", i, b.placement));
      if (last != nullptr && (b.placement < last->placement || b.at_s < last->at_s))
        wrong.push_back(fmt::format("block {} began before the one before it", i));
      for (const Letter* l : {&b.a[0], &b.a[1], &b.b[0], &b.b[1]})
        if (b.dropped.empty() && (!(l->time_ns > 0) || l->launches == 0)) {
          wrong.push_back(fmt::format("block {} counts, and a letter of it has no time", i));
          break;
        }
      last = &b;
    }
    return add(
        "blocks", wrong,
        fmt::format("{} blocks, {} looks that spend {:g}", comparison_.blocks.size(), d.looks.size(), alpha));
  }

  void conclusion() {
    Lines wrong;
    try {
      wrong = measure::verify(comparison_);
    } catch (const std::exception&
                 e) {  // a quantile that does not exist: only of a design that Klab does not make
      wrong.push_back(std::string("it cannot be computed: ") + e.what());
    }
    const measure::Interval& i = comparison_.conclusion.interval;
    add("conclusion", wrong,
        fmt::format("the blocks give {}, {:.4f} ({:.4f} to {:.4f}), again",
                    to_string(comparison_.conclusion.verdict), i.ratio, i.low, i.high));
  }

  void speed() {
    const measure::Conclusion& c = comparison_.conclusion;
    Lines wrong;
    if (speed_ != to_string(c.verdict)) {
      // A variant that timed launches showed to be wrong keeps its blocks and loses its speed.
      if (speed_ != "none" || text(at(report_, "verdict", "correctness")) == "correct")
        wrong.push_back(
            fmt::format("the verdict says \"{}\", the comparison \"{}\"", speed_, to_string(c.verdict)));
    } else if (const auto ratio = number(at(report_, "verdict", "ratio"));
               !ratio || !same(*ratio, c.interval.ratio)) {
      wrong.push_back(fmt::format("the verdict's ratio is {}, the comparison's {:.9g}",
                                  text(at(report_, "verdict", "ratio")), c.interval.ratio));
    }
    if (comparison_.interrupted && claims(speed_)) wrong.push_back("it was interrupted, and claims a speed");
    add("speed", wrong, fmt::format("the verdict is the comparison's: {}", speed_));
  }

  void floor() {
    const Json& floor = at(report_, "comparison", "floor");
    const measure::Design& d = comparison_.design;
    const auto value = number(at(floor, "value"));
    Lines wrong;
    if (!value) {
      if (!claims(speed_)) return skip("floor", "it is not there");
      wrong.push_back("a speed is claimed, and what two copies of one module differ by was not measured");
    } else {
      if (*value < 0) wrong.push_back(fmt::format("the floor is {:g}", *value));
      if (!same(*value, d.floor))
        wrong.push_back(fmt::format("the floor is {:g}, the decision used {:g}", *value, d.floor));
    }
    if (const auto delta = number(at(report_, "comparison", "design", "delta"));
        delta && !same(*delta, d.delta()))
      wrong.push_back(fmt::format("delta is {:g}, margin {:g} and floor {:g} give {:g}", *delta, d.margin,
                                  d.floor, d.delta()));
    add("floor", wrong,
        fmt::format("two copies differ by {:.3f} %; differences up to {:.3f} % count as none", 100 * d.floor,
                    100 * d.delta()));
  }

  void dropped() {
    std::uint32_t of = 0, gone = 0;
    for (const Block& b : comparison_.blocks) {
      if (b.placement >= comparison_.conclusion.placements) continue;
      ++of;
      gone += b.dropped.empty() ? 0 : 1;
    }
    const double share = of == 0 ? 0 : static_cast<double>(gone) / of;
    Lines wrong;
    if (share > 0.2 && (claims(speed_) || speed_ == "clock_dependent"))
      wrong.push_back(fmt::format("{} of {} blocks were dropped, and it says \"{}\"", gone, of, speed_));
    std::uint32_t told = 0;
    for (const auto& [why, n] : comparison_.conclusion.dropped) told += n;
    if (told != gone)
      wrong.push_back(fmt::format("reasons are given for {} dropped blocks, there are {}", told, gone));
    add("dropped", wrong, fmt::format("{} of {} blocks", gone, of));
  }

  /// Letters are medians of the launches: computed again where all launches are here, else only made
  /// plausible.
  void samples(const char* which) {
    const bool is_b = which[0] == 'b';
    const std::string name = is_b ? "samples of B" : "samples of A";
    const Json& j = at(report_, "samples", which);
    const std::vector<double> times = numbers(at(j, "times_ns"));
    if (times.empty()) {
      if (claims(speed_))
        add(name, {"a speed is claimed, and there are none"}, "");
      else
        skip(name, "there are none");
      return;
    }
    Lines wrong;
    double low = INFINITY, high = 0;
    std::uint64_t launches = 0;
    for (const Block& b : comparison_.blocks)
      for (const Letter& l : is_b ? b.b : b.a) {
        low = std::min(low, l.time_ns), high = std::max(high, l.time_ns);
        launches += l.launches;
      }
    const double middle = measure::grouped_median(times, 0);
    if (!(middle >= low * (1 - kSame) && middle <= high * (1 + kSame)))
      wrong.push_back(
          fmt::format("their median is {:g} ns, the letters are {:g} to {:g} ns", middle, low, high));
    const auto step = number(at(report_, "comparison", "timer_step_ns"));
    std::string fine = fmt::format("{} times; their median lies within the letters", times.size());
    if (step && launches == times.size()) {
      std::size_t at_sample = 0, differ = 0;
      for (std::size_t i = 0; i < comparison_.blocks.size(); ++i)
        for (const Letter& l : is_b ? comparison_.blocks[i].b : comparison_.blocks[i].a) {
          const double median =
              measure::grouped_median(std::span(times).subspan(at_sample, l.launches), *step);
          at_sample += l.launches;
          if (same(median, l.time_ns)) continue;
          if (differ++ == 0)
            wrong.push_back(fmt::format("a letter of block {} is {:g} ns, its launches give {:g} ns", i,
                                        l.time_ns, median));
        }
      if (differ > 1) wrong.push_back(fmt::format("{} letters differ from their launches", differ));
      fine = fmt::format("{} times give every letter of the blocks again", times.size());
    } else if (const auto taken = number(at(j, "taken"));
               taken && launches != 0 && *taken != static_cast<double>(launches)) {
      wrong.push_back(fmt::format("{:.0f} times were taken, the blocks have {} launches", *taken, launches));
    }
    add(name, wrong, fine);
  }

  const Json& report_;
  std::string speed_;
  measure::Comparison comparison_;
  std::vector<ReportCheck> checks_;
};

}  // namespace

void to_json(Json& j, const ReportCheck& v) {
  j = {{"name", v.name}, {"result", v.result}, {"detail", v.detail}};
}

std::vector<ReportCheck> verify_report(const Json& report) { return Verification(report).run(); }

bool agrees(const std::vector<ReportCheck>& checks) {
  return std::none_of(checks.begin(), checks.end(),
                      [](const ReportCheck& c) { return c.result == Agreement::failed; });
}

}  // namespace klab::ops
