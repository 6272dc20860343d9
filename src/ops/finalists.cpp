// SPDX-License-Identifier: Apache-2.0
// Several variants against one reference: comparisons one after the other, then Holm's levels over what they measured.
#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "ops/run.h"
#include "ops/build.h"

namespace klab::ops {
namespace {

/// Says which finalist a line of progress is of.
class Numbered {
 public:
  Numbered(Lab& lab, std::size_t number, std::size_t of, const std::string& name) : lab_(lab), before_(lab.progress) {
    if (before_)
      lab.progress = [before = before_, prefix = fmt::format("{} ({} of {}): ", name, number, of)](
                         const std::string& line, std::uint64_t done, std::uint64_t total) { before(prefix + line, done, total); };
  }
  ~Numbered() { lab_.progress = before_; }

 private:
  Lab& lab_;
  decltype(Lab::progress) before_;
};

/// Every name is there, and each stands for another variant.
Status check_names(Lab& lab, const CompareRequest& request) {
  const auto& names = request.variants;
  if (names.size() < 2 || names.size() > measure::kMostFinalists)
    return fail(ErrorCode::usage, fmt::format("{} variants: from 2 to {} can be compared together", names.size(), measure::kMostFinalists),
                "rank more of them with klab replay first");
  std::set<std::string> seen;
  for (const std::string& name : names) {
    KLAB_TRY(const Chosen chosen, choose_variant(lab, request.bundle, name));
    if (!chosen.row)
      return fail(ErrorCode::usage, fmt::format("{} is the baseline itself", name), "name variants of it");
    if (!seen.insert(chosen.row->id).second)
      return fail(ErrorCode::usage, fmt::format("{} is named twice", name), "each variant once");
  }
  return {};
}

}  // namespace

Result<Finalists> compare_finalists(Lab& lab, const CompareRequest& request) {
  KLAB_TRY_VOID(check_names(lab, request));
  Finalists done;
  CompareRequest one = request;
  one.variants.clear();
  one.alpha = measure::kAlpha / static_cast<double>(request.variants.size());
  for (const std::string& name : request.variants) {
    const Numbered numbered(lab, done.all.size() + 1, request.variants.size(), name);
    one.variant = name;
    KLAB_TRY(Compared compared, compare_variants(lab, one));
    done.all.push_back(std::move(compared));
    if (const auto& c = done.all.back().comparison; c && c->interrupted) break;
  }
  std::vector<measure::Comparison*> comparisons;
  std::vector<std::size_t> of;
  for (std::size_t i = 0; i < done.all.size(); ++i) {
    if (!done.all[i].comparison) continue;
    comparisons.push_back(&*done.all[i].comparison);
    of.push_back(i);
  }
  // Not all were measured: what the others would have said is open, so their levels are not given away.
  if (done.all.size() == request.variants.size()) {
    KLAB_TRY(session::Store * store, lab.store());
    for (const std::size_t k : measure::settle_finalists(comparisons)) {
      Compared& c = done.all[of[k]];
      c.answer.comparison.update(Json(*c.comparison));
      from_string(to_string(c.comparison->conclusion.verdict), c.verdict.speed);
      c.verdict.ratio = c.comparison->conclusion.interval.ratio;
      c.verdict.detail["comparison"] = c.answer.comparison;
      KLAB_TRY(c.verdict.id, store->add_verdict(c.verdict));
      done.settled.push_back(of[k]);
    }
  }
  for (std::size_t i = 0; i < done.all.size(); ++i) {
    if (done.all[i].verdict.speed != validate::Speed::faster) continue;
    const auto high = [&](std::size_t k) { return done.all[k].comparison->conclusion.interval.high; };
    if (!done.best || high(i) < high(*done.best)) done.best = i;
  }
  return done;
}

void to_json(Json& j, const Finalists& v) {
  j = Json{{"finalists", v.all}, {"settled", v.settled}};
  if (v.best) j["best"] = *v.best;
}

}  // namespace klab::ops
