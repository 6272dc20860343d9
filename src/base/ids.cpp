// SPDX-License-Identifier: Apache-2.0
#include "base/ids.h"

#include <ctime>
#include <random>

namespace klab {

std::string new_id(std::size_t digits) {
  static constexpr char kAlphabet[] = "0123456789abcdefghijklmnopqrstuvwxyz";
  std::random_device source;
  std::uniform_int_distribution<int> pick(0, 35);
  std::string id;
  for (std::size_t i = 0; i < digits; ++i) id += kAlphabet[pick(source)];
  return id;
}

bool same_token(std::string_view given, std::string_view right) {
  unsigned differs = given.size() != right.size() ? 1 : 0;
  for (std::size_t i = 0; i < right.size(); ++i)
    differs |=
        static_cast<unsigned char>(right[i]) ^ static_cast<unsigned char>(i < given.size() ? given[i] : '\0');
  return differs == 0 && !right.empty();
}

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

}  // namespace klab
