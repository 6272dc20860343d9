// SPDX-License-Identifier: Apache-2.0
#include "shim/launch/kernels.h"

#include <cxxabi.h>
#include <regex.h>
#include <xxhash.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <unordered_map>
#include <vector>

#include "shim/common/link.h"

namespace klab::shim {
namespace {

constexpr std::size_t kMaxName = 4096;  // bytes of a name that klab is told

struct Kernels {
  std::mutex lock;
  std::unordered_map<std::string, std::unique_ptr<Kernel>> by_name;
  std::vector<Kernel*> all;
  bool compiled = false, valid = false;
  regex_t expression;
};
Kernels& kernels() {
  static Kernels* const the = new Kernels;
  return *the;
}

bool hash_prefix(const std::string& text, std::uint64_t hash) {
  char digits[17];
  std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(hash));
  return text.size() >= 4 && text.size() <= 16 && std::strncmp(text.c_str(), digits, text.size()) == 0;
}

std::uint64_t hash_of(const std::string& mangled) { return XXH3_64bits(mangled.data(), mangled.size()); }

bool request_matches(Kernels& all, const std::string& mangled, const std::string& name) {
  const std::string& wanted = link().config().kernel;
  if (wanted == name || wanted == mangled || hash_prefix(wanted, hash_of(mangled))) return true;
  if (!all.compiled) {
    all.compiled = true;
    all.valid = ::regcomp(&all.expression, wanted.c_str(), REG_EXTENDED | REG_NOSUB) == 0;
  }
  return all.valid && (::regexec(&all.expression, name.c_str(), 0, nullptr, 0) == 0 ||
                       ::regexec(&all.expression, mangled.c_str(), 0, nullptr, 0) == 0);
}

void send_kernel(const Kernel& k, std::span<const std::byte> code) {
  klab_kernel record{};
  record.kernel = k.id;
  record.has_code = k.matches ? 1 : 0;
  record.hash = k.hash;
  if (!code.empty()) {
    const XXH128_hash_t hash = XXH3_128bits(code.data(), code.size());
    record.code_hash_low = hash.low64;
    record.code_hash_high = hash.high64;
    record.code_size = code.size();
  }
  const std::string_view name = std::string_view(k.name).substr(0, kMaxName);
  const std::string_view entry = std::string_view(k.mangled).substr(0, kMaxName);
  record.name_length = static_cast<std::uint32_t>(name.size());
  record.entry_length = static_cast<std::uint32_t>(entry.size());
  link().send(&record, sizeof record, KLAB_KERNEL, {name, entry});
}

}  // namespace

Counts& counts() {
  static Counts* const the = new Counts;
  return *the;
}

std::string demangle(const std::string& mangled) {
  int status = 0;
  char* text = abi::__cxa_demangle(mangled.c_str(), nullptr, nullptr, &status);
  std::string name = status == 0 && text != nullptr ? std::string(text) : mangled;
  std::free(text);
  return name;
}

bool wanted_name(const std::string& mangled) {
  if (link().config().mode != KLAB_MODE_CAPTURE) return false;
  const std::string name = demangle(mangled);
  Kernels& all = kernels();
  std::lock_guard hold(all.lock);
  return request_matches(all, mangled, name);
}

Kernel& kernel_named(const std::string& mangled) {
  Kernels& all = kernels();
  std::lock_guard hold(all.lock);
  auto& place = all.by_name[mangled];
  if (place) return *place;
  place = std::make_unique<Kernel>();
  Kernel& k = *place;
  k.id = static_cast<std::uint32_t>(all.all.size());
  k.mangled = mangled;
  k.name = demangle(mangled);
  k.hash = hash_of(mangled);
  k.matches = link().config().mode == KLAB_MODE_CAPTURE && request_matches(all, k.mangled, k.name);
  all.all.push_back(&k);
  send_kernel(k, {});
  return k;
}

bool take_number(Kernel& kernel, std::uint64_t& nth) {
  Counts& c = counts();
  std::lock_guard hold(c.lock);
  nth = ++kernel.executions;
  if (c.finished || !link().live() || (c.chosen != nullptr && c.chosen != &kernel)) return false;
  const auto& wanted = link().config().nth;
  if (!std::binary_search(wanted.begin(), wanted.end(), nth)) return false;
  c.chosen = &kernel;
  ++c.taken;
  return true;
}

void refuse(const Kernel& kernel, std::uint64_t nth, const std::string& why) {
  const std::string_view name = std::string_view(kernel.name).substr(0, kMaxName);
  const std::string_view text = std::string_view(why).substr(0, KLAB_MAX_TEXT);
  klab_text record{};
  record.nth = nth;
  record.kernel = kernel.id;
  record.what_length = static_cast<std::uint32_t>(name.size());
  record.why_length = static_cast<std::uint32_t>(text.size());
  link().send(&record, sizeof record, KLAB_REFUSED, {name, text});
}

void tell_submitted(double waited_ms, bool given_up) {
  send_counts();
  klab_submitted done{};
  done.waited_ms = waited_ms;
  {
    Counts& c = counts();
    std::lock_guard hold(c.lock);
    if (given_up || c.taken >= link().config().nth.size()) c.finished = true;
    done.last = c.finished ? 1 : 0;
  }
  link().send(&done, sizeof done, KLAB_SUBMITTED);
}

bool send_code(Kernel& kernel, std::span<const std::byte> code) {
  const std::uint64_t hash = XXH3_64bits(code.data(), code.size());
  if (kernel.code_sent_hash == hash) return link().live();
  send_kernel(kernel, code);
  for (std::size_t at = 0; at < code.size(); at += KLAB_SLOT_BYTES)
    if (!link().send_data(KLAB_DATA_CODE, kernel.id, at, code.data() + at,
                          std::min<std::size_t>(KLAB_SLOT_BYTES, code.size() - at)))
      return false;
  kernel.code_sent_hash = hash;
  return true;
}

void send_counts() {
  std::vector<klab_count> rows;
  {
    std::lock_guard hold(kernels().lock);
    std::lock_guard counting(counts().lock);
    for (const Kernel* k : kernels().all) rows.push_back({k->id, 0, k->executions});
  }
  link().send_list(KLAB_COUNTS, 0, rows.data(), sizeof(klab_count), rows.size());
}

void counts_after_fork() {
  new (&kernels().lock) std::mutex;
  new (&counts().lock) std::mutex;
  counts().finished = true;
}

}  // namespace klab::shim
