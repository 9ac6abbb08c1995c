#include "vpx_decoder.h"

#include <libyuv.h>
#include <vpx/vp8dx.h>
#include <vpx/vpx_decoder.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "addon_data.h"
#include "arguments.h"

namespace segue {

struct VpxDecoderState {
  vpx_codec_ctx_t codec{};
  bool open = false;
  ~VpxDecoderState() {
    if (open) vpx_codec_destroy(&codec);
  }
};

namespace {

class DecodeJob : public Job {
 public:
  // A size of 0 is the picture's own.
  DecodeJob(Napi::Env env, std::shared_ptr<VpxDecoderState> state, Napi::Uint8Array data, bool rgb, int width, int height)
      : Job(env), state_(std::move(state)), data_(data.Data()), size_(data.ByteLength()), rgb_(rgb), keep_(Napi::Persistent(data.As<Napi::Object>())), width_(width), height_(height) {}

  void Execute() noexcept override {
    if (vpx_codec_decode(&state_->codec, data_, static_cast<unsigned>(size_), nullptr, 0) != VPX_CODEC_OK) {
      error = std::string("vp8 decoder: ") + vpx_codec_error(&state_->codec);
      return;
    }
    vpx_codec_iter_t iterator = nullptr;
    const vpx_image_t* image = vpx_codec_get_frame(&state_->codec, &iterator);
    if (image == nullptr) {
      error = "vp8 decoder: no picture came out";
      return;
    }
    if (width_ == 0) CopyOut(image->planes, image->stride, static_cast<int>(image->d_w), static_cast<int>(image->d_h));
    else FitOut(*image);
  }

 protected:
  Napi::Value Result(Napi::Env env) override {
    Napi::Object result = Napi::Object::New(env);
    result["width"] = Napi::Number::New(env, width_);
    result["height"] = Napi::Number::New(env, height_);
    result["data"] = Napi::Buffer<uint8_t>::Copy(env, pixels_.data(), pixels_.size());
    return result;
  }

 private:
  // Scaled to cover the size that was asked for; what sticks out at two sides is cut off.
  void FitOut(const vpx_image_t& image) {
    const int from_width = static_cast<int>(image.d_w);
    const int from_height = static_cast<int>(image.d_h);
    const bool wide = static_cast<int64_t>(from_width) * height_ > static_cast<int64_t>(from_height) * width_;
    const int cut_width = wide ? std::max(2, static_cast<int>(static_cast<int64_t>(from_height) * width_ / height_)) : from_width;
    const int cut_height = wide ? from_height : std::max(2, static_cast<int>(static_cast<int64_t>(from_width) * height_ / width_));
    const int left = (from_width - cut_width) / 2 & ~1;
    const int top = (from_height - cut_height) / 2 & ~1;
    const uint8_t* from[3] = {image.planes[0] + top * image.stride[0] + left, image.planes[1] + top / 2 * image.stride[1] + left / 2, image.planes[2] + top / 2 * image.stride[2] + left / 2};
    const int chroma_width = (width_ + 1) / 2;
    const int chroma_height = (height_ + 1) / 2;
    const std::size_t luma = static_cast<std::size_t>(width_) * static_cast<std::size_t>(height_);
    const std::size_t chroma = static_cast<std::size_t>(chroma_width) * static_cast<std::size_t>(chroma_height);
    std::vector<uint8_t> scaled(luma + 2 * chroma);
    uint8_t* planes[3] = {scaled.data(), scaled.data() + luma, scaled.data() + luma + chroma};
    const int strides[3] = {width_, chroma_width, chroma_width};
    libyuv::I420Scale(from[0], image.stride[0], from[1], image.stride[1], from[2], image.stride[2], cut_width, cut_height, planes[0], strides[0], planes[1], strides[1], planes[2], strides[2], width_, height_, libyuv::kFilterBox);
    CopyOut(planes, strides, width_, height_);
  }

  template <typename Plane>
  void CopyOut(Plane* const* in, const int* stride, int width, int height) {
    width_ = width;
    height_ = height;
    const std::size_t luma = static_cast<std::size_t>(width_) * static_cast<std::size_t>(height_);
    if (rgb_) {
      pixels_.resize(luma * 3);
      libyuv::I420ToRAW(in[0], stride[0], in[1], stride[1], in[2], stride[2], pixels_.data(), width_ * 3, width_, height_);
      return;
    }
    const int chroma_width = (width_ + 1) / 2;
    const std::size_t chroma = static_cast<std::size_t>(chroma_width) * static_cast<std::size_t>((height_ + 1) / 2);
    pixels_.resize(luma + 2 * chroma);
    uint8_t* u = pixels_.data() + luma;
    libyuv::I420Copy(in[0], stride[0], in[1], stride[1], in[2], stride[2], pixels_.data(), width_, u, chroma_width, u + chroma, chroma_width, width_, height_);
  }

  std::shared_ptr<VpxDecoderState> state_;
  const uint8_t* data_;
  std::size_t size_;
  bool rgb_;
  Napi::ObjectReference keep_;
  std::vector<uint8_t> pixels_;
  int width_;
  int height_;
};

}  // namespace

Napi::Function VpxDecoder::Define(Napi::Env env) {
  return DefineClass(env, "VpxDecoder", {InstanceMethod("decode", &VpxDecoder::Decode), InstanceMethod("close", &VpxDecoder::Close)});
}

VpxDecoder::VpxDecoder(const Napi::CallbackInfo& info)
    : Napi::ObjectWrap<VpxDecoder>(info), state_(std::make_shared<VpxDecoderState>()), strand_(std::make_shared<Strand>(PoolOf(info.Env()))) {
  vpx_codec_dec_cfg_t config{};
  config.threads = 1;
  if (vpx_codec_dec_init(&state_->codec, vpx_codec_vp8_dx(), &config, 0) != VPX_CODEC_OK) throw Napi::Error::New(info.Env(), "vp8 decoder: initialisation failed");
  state_->open = true;
}

// decode(data, 'rgb24' | 'i420', { width, height }?)
Napi::Value VpxDecoder::Decode(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  if (!state_) throw Napi::Error::New(env, "vp8 decoder is closed");
  const Napi::Uint8Array data = BytesArgument(info, 0);
  const std::string format = info.Length() > 1 ? info[1].ToString().Utf8Value() : "";
  if (format != "rgb24" && format != "i420") throw Napi::TypeError::New(env, "format must be 'rgb24' or 'i420'");
  const bool fits = info.Length() > 2 && info[2].IsObject();
  const int width = fits ? IntOption(OptionsArgument(info, 2), "width", 2, 4096) : 0;
  const int height = fits ? IntOption(OptionsArgument(info, 2), "height", 2, 4096) : 0;
  return strand_->Post(env, std::make_unique<DecodeJob>(env, state_, data, format == "rgb24", width, height));
}

Napi::Value VpxDecoder::Close(const Napi::CallbackInfo& info) {
  state_.reset();
  return info.Env().Undefined();
}

}  // namespace segue
