// SPDX-License-Identifier: Apache-2.0
#include "session/packed.h"

#include <fmt/format.h>
#include <zstd.h>

namespace klab::session {

namespace {
constexpr unsigned long long kMost = 256ull << 20;
}

std::string json_text(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string pack_json(const Json& value) {
  const std::string text = json_text(value);
  std::string packed(ZSTD_compressBound(text.size()), '\0');
  const std::size_t size = ZSTD_compress(packed.data(), packed.size(), text.data(), text.size(), 9);
  KLAB_CHECK(ZSTD_isError(size) == 0u);  // the bound is zstd's own
  packed.resize(size);
  return packed;
}

Result<Json> unpack_json(std::string_view packed, std::string_view what) {
  if (packed.empty()) return Json();
  const unsigned long long size = ZSTD_getFrameContentSize(packed.data(), packed.size());
  if (size == ZSTD_CONTENTSIZE_ERROR || size == ZSTD_CONTENTSIZE_UNKNOWN || size > kMost)
    return fail(ErrorCode::store_failed, fmt::format("{}: damaged in the store", what));
  std::string text(size, '\0');
  const std::size_t got = ZSTD_decompress(text.data(), text.size(), packed.data(), packed.size());
  if (ZSTD_isError(got) != 0u || got != size)
    return fail(ErrorCode::store_failed, fmt::format("{}: damaged in the store", what));
  return parse_json(text, what, kMost);
}

}  // namespace klab::session
