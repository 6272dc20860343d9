// SPDX-License-Identifier: Apache-2.0
#include "validate/variation.h"

namespace klab::validate {

void Variation::add_run(ByteView outcome, ByteView wanted) {
  if (runs_++ == 0) {
    first_.assign(outcome.begin(), outcome.end());
    varies_ = Mask(outcome.size());
    if (!wanted.empty()) differs_always_ = differing(outcome, wanted);
    return;
  }
  varies_.merge(differing(first_, outcome));
  if (wanted.empty() || !differs_always_.any()) return;
  for (const Run& r : validate::runs(differs_always_))
    for (std::uint64_t i = r.offset; i < r.offset + r.size; ++i)
      if (outcome[i] == wanted[i]) differs_always_.clear(i);
}

Mask Variation::varying() const {
  Mask wide = varies_;
  wide.widen_to_elements();
  return wide;
}

Mask Variation::never_agreed() const {
  Mask rest = differs_always_;
  rest.remove(varying());
  return rest;
}

}  // namespace klab::validate
