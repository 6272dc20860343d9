// SPDX-License-Identifier: Apache-2.0
// Texture and surface objects over captured texels. Arrays are made anew; their texels travel between them
// and the region's memory (rows packed) when a batch says so.
#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "gpu/cuda/arguments.h"
#include "gpu/cuda/device.h"

namespace klab::gpu::cuda {
namespace {

// Handles count upwards: a few tries reach the captured one in a fresh process.
constexpr int kHandleTries = 1024;

Json key_of(const bundle::TextureObject& t) { return Json(t); }

}  // namespace

CudaDevice::Image::~Image() {
  if (device == nullptr || device->lost_) return;
  if (handle != 0)
    (void)(object.surface ? device->driver_.SurfObjectDestroy(handle)
                          : device->driver_.TexObjectDestroy(handle));
  if (array != nullptr) (void)device->driver_.ArrayDestroy(array);
}

Result<std::shared_ptr<CudaDevice::Image>> CudaDevice::make_image(const LaunchSpec::Texture& texture) {
  const bundle::TextureObject& t = texture.object;
  std::erase_if(images_, [](const auto& weak) { return weak.expired(); });
  for (const auto& weak : images_)
    if (auto known = weak.lock();
        known && known->memory == texture.memory && key_of(known->object) == key_of(t))
      return known;

  const auto format = array_format(t.format);
  if (!format)
    return fail(ErrorCode::unsupported, fmt::format("textures of format \"{}\" are not restored", t.format),
                "capture a launch without them");
  auto image = std::make_shared<Image>();
  image->device = this;
  image->object = t;
  image->memory = texture.memory;
  CUDA_RESOURCE_DESC resource{};
  const std::uint64_t texel = std::uint64_t{format->bytes} * t.channels;
  if (t.resource == "array") {
    CUDA_ARRAY3D_DESCRIPTOR d{};
    d.Width = t.width;
    d.Height = t.height;
    d.Depth = t.depth;
    d.Format = format->format;
    d.NumChannels = t.channels;
    d.Flags = t.array_flags;
    if (t.surface) d.Flags |= CUDA_ARRAY3D_SURFACE_LDST;
    image->row_bytes = t.width * texel;
    image->rows = std::max<std::uint64_t>(1, t.height);
    image->layers = std::max<std::uint64_t>(1, t.depth);
    KLAB_TRY_VOID(memory(texture.memory, t.offset, image->row_bytes * image->rows * image->layers));
    // Several objects may share an array: a surface and a texture over the same texels must see each other's
    // writes.
    for (const auto& weak : images_)
      if (auto known = weak.lock(); known && known->memory == texture.memory && known->array != nullptr)
        return fail(ErrorCode::unsupported,
                    "two texture or surface objects over one array are not restored yet");
    KLAB_CU_TRY(driver_.Array3DCreate(&image->array, &d),
                fmt::format("cuArray3DCreate of {} x {} x {} {} with {} channel(s), flags {:#x}", t.width,
                            t.height, t.depth, t.format, t.channels, d.Flags),
                ErrorCode::unsupported);
    resource.resType = CU_RESOURCE_TYPE_ARRAY;
    resource.res.array.hArray = image->array;
  } else if (t.resource == "linear") {
    KLAB_TRY(const Memory* m, memory(texture.memory, t.offset, t.linear_bytes));
    resource.resType = CU_RESOURCE_TYPE_LINEAR;
    resource.res.linear.devPtr = m->address + t.offset;
    resource.res.linear.format = format->format;
    resource.res.linear.numChannels = t.channels;
    resource.res.linear.sizeInBytes = t.linear_bytes;
  } else if (t.resource == "pitch2d") {
    const std::uint64_t bytes = t.height == 0 ? 0 : t.pitch * (t.height - 1) + t.width * texel;
    KLAB_TRY(const Memory* m, memory(texture.memory, t.offset, bytes));
    resource.resType = CU_RESOURCE_TYPE_PITCH2D;
    resource.res.pitch2D.devPtr = m->address + t.offset;
    resource.res.pitch2D.format = format->format;
    resource.res.pitch2D.numChannels = t.channels;
    resource.res.pitch2D.width = t.width;
    resource.res.pitch2D.height = t.height;
    resource.res.pitch2D.pitchInBytes = t.pitch;
  } else {
    return fail(ErrorCode::unsupported, fmt::format("textures over \"{}\" are not restored", t.resource));
  }
  CUDA_TEXTURE_DESC sampling{};
  if (!t.surface) {
    if (t.sampling.size() > sizeof sampling)
      return fail(ErrorCode::invalid_data,
                  fmt::format("a texture descriptor of {} bytes", t.sampling.size()));
    std::memcpy(&sampling, t.sampling.data(), t.sampling.size());
  }
  auto create = [&](std::uint64_t& handle) {
    CUtexObject made = 0;
    const CUresult r = t.surface ? driver_.SurfObjectCreate(&made, &resource)
                                 : driver_.TexObjectCreate(&made, &resource, &sampling, nullptr);
    handle = made;
    return r;
  };
  auto destroy = [&](std::uint64_t handle) {
    (void)(t.surface ? driver_.SurfObjectDestroy(handle) : driver_.TexObjectDestroy(handle));
  };
  std::vector<std::uint64_t> others;
  for (int i = 0; i < kHandleTries; ++i) {
    std::uint64_t handle = 0;
    const CUresult r = create(handle);
    if (r != CUDA_SUCCESS) {
      if (!others.empty()) break;
      return cu_fail(r, fmt::format("cu{}ObjectCreate over {}", t.surface ? "Surf" : "Tex", t.resource),
                     ErrorCode::launch_failed);
    }
    if (handle == t.handle) {
      image->handle = handle;
      break;
    }
    others.push_back(handle);
    if (handle > t.handle) break;
  }
  if (image->handle == 0) {
    image->handle = others.back();
    others.pop_back();
  }
  for (const std::uint64_t handle : others) destroy(handle);
  images_.push_back(image);
  return image;
}

Status CudaDevice::copy_image(const Image& image, bool in) {
  if (image.array == nullptr || (!in && !image.object.surface)) return {};
  const auto it = memories_.find(image.memory);
  if (it == memories_.end())
    return fail(ErrorCode::internal, "the texels' memory was released before the launch");
  CUDA_MEMCPY3D c{};
  const CUdeviceptr texels = it->second.address + image.object.offset;
  if (in) {
    c.srcMemoryType = CU_MEMORYTYPE_DEVICE;
    c.srcDevice = texels;
    c.srcPitch = image.row_bytes;
    c.srcHeight = image.rows;
    c.dstMemoryType = CU_MEMORYTYPE_ARRAY;
    c.dstArray = image.array;
  } else {
    c.srcMemoryType = CU_MEMORYTYPE_ARRAY;
    c.srcArray = image.array;
    c.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    c.dstDevice = texels;
    c.dstPitch = image.row_bytes;
    c.dstHeight = image.rows;
  }
  c.WidthInBytes = image.row_bytes;
  c.Height = image.rows;
  c.Depth = image.layers;
  KLAB_CU_TRY(driver_.Memcpy3DAsync(&c, stream_),
              fmt::format("cuMemcpy3DAsync of {} layer(s) of {} rows of {} bytes", image.layers, image.rows,
                          image.row_bytes),
              ErrorCode::launch_failed);
  return {};
}

}  // namespace klab::gpu::cuda
