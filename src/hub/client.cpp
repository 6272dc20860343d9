// SPDX-License-Identifier: Apache-2.0
#include "hub/client.h"

#include <mutex>

#include "ops/api.h"

namespace klab::hub {

struct Client::Impl {
  Options options;
  std::mutex mutex;
  ops::Lab lab;
};

Client::Client(Options options) : impl_(std::make_unique<Impl>()) { impl_->options = std::move(options); }
Client::~Client() = default;

Result<Json> Client::call(const std::string& verb, const Json& arguments, const OnProgress& progress,
                          const std::function<bool()>& cancelled) {
  std::lock_guard lock(impl_->mutex);
  impl_->lab.front_end = impl_->options.front_end;
  impl_->lab.cancelled = cancelled;
  impl_->lab.progress = nullptr;
  if (progress)
    impl_->lab.progress = [&progress](const std::string& line, std::uint64_t done, std::uint64_t total) {
      progress({line, done, total, 0});
    };
  return ops::call(impl_->lab, verb, arguments);
}

}  // namespace klab::hub
