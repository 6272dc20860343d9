// SPDX-License-Identifier: Apache-2.0
// Turns the records of a capture into a manifest and chunks. Foreign bytes: everything is checked.
// Not here: the target's life (server.h), what the user is told (capture.cpp).
#pragma once
#include <optional>

#include "capture/server.h"

namespace klab::capture {

class Collector : public Sink {
 public:
  Collector(const CaptureRequest& request, bundle::Writer writer, std::uint64_t max_bytes,
            std::uint64_t free_bytes, const OnProgress& progress);

  klab_config config() const override;
  std::string kernel() const override { return request_.kernel; }
  std::vector<std::uint64_t> nth() const override { return request_.nth; }
  Status message(Process& process, const klab_header& header, std::span<const std::byte> packet) override;
  Status data(Process& process, const klab_data_record& record, std::span<const std::byte> bytes) override;
  std::uint32_t answer(Process& process, const klab_size& size) override;
  void closed(Process& process) override;
  bool done() const override { return sealed_.has_value() || ((error_ || preview_bytes_) && last_seen_); }

  // How it went, once the target has ended or earlier.
  std::optional<bundle::Writer::Sealed> sealed_;
  std::optional<Error> error_;
  std::uint64_t captured_bytes_ = 0;
  std::size_t dispatches_ = 0;
  double waited_ms_ = 0;
  bool in_capture_ = false;  // a capture has begun and not ended
  std::optional<std::uint64_t> preview_bytes_;  // of a preview: what would have been captured
  std::string preview_name_;
  std::vector<std::string> warnings_;

 private:
  struct RegionState {
    std::uint64_t next_pre = 0, next_post = 0;  // bytes that came
  };
  Status begin(Process& p, std::span<const std::byte> packet);
  Status region(Process& p, std::span<const std::byte> packet);
  Status bindings(std::span<const std::byte> packet);
  Status launch(const klab_header& header, std::span<const std::byte> packet);
  Status texture(std::span<const std::byte> packet);
  void packet_of(const klab_aql& r);
  void describe_arguments(const KernelSeen& kernel);
  Status end(std::span<const std::byte> packet);
  void text(Process& p, const klab_header& header, std::span<const std::byte> packet);
  void seal();
  void stop(Error error);

  const CaptureRequest& request_;
  std::optional<bundle::Writer> writer_;
  std::uint64_t max_bytes_, free_bytes_;
  const OnProgress& progress_;
  Process* owner_ = nullptr;  // the process that the capture is of
  std::int64_t owner_number_ = -1;
  bundle::Manifest manifest_;
  bundle::Dispatch current_;
  std::vector<RegionState> regions_;
  std::uint64_t before_current_ = 0;  // bytes of the dispatches before this one
  bool last_seen_ = false;
  bool launched_ = false;  // by name (CUDA, HIP): the block comes with the launch, not with the code
};

}  // namespace klab::capture
