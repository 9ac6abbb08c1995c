#include "vpx_encoder.h"

#include <libyuv.h>
#include <vpx/vp8cx.h>
#include <vpx/vpx_encoder.h>

#include <atomic>
#include <chrono>
#include <string>
#include <vector>

#include "addon_data.h"
#include "arguments.h"

namespace segue {

// The codec and its picture. Used by one thread at a time (the strand); only `bitrate` is shared.
struct VpxEncoderState {
  vpx_codec_ctx_t codec{};
  vpx_codec_enc_cfg_t config{};
  vpx_image_t* image = nullptr;
  bool open = false;
  int width = 0;
  int height = 0;
  // Frame count, not wall time: after a held second the rate control would otherwise spend a whole second's bits on one frame.
  vpx_codec_pts_t frame = 0;
  std::atomic<unsigned> bitrate_kbps{0};

  ~VpxEncoderState() {
    if (open) vpx_codec_destroy(&codec);
    if (image != nullptr) vpx_img_free(image);
  }
  std::string Error() {
    const char* detail = vpx_codec_error_detail(&codec);
    return std::string("vp8 encoder: ") + (detail != nullptr ? detail : vpx_codec_error(&codec));
  }
  std::size_t ChromaWidth() const { return (static_cast<std::size_t>(width) + 1) / 2; }
  std::size_t ChromaHeight() const { return (static_cast<std::size_t>(height) + 1) / 2; }
};

namespace {

enum class PixelFormat { kRgb24, kI420 };

class EncodeJob : public Job {
 public:
  EncodeJob(Napi::Env env, std::shared_ptr<VpxEncoderState> state, Napi::Uint8Array pixels, PixelFormat format, bool keyframe)
      : Job(env), state_(std::move(state)), pixels_(pixels.Data()), format_(format), force_keyframe_(keyframe), keep_(Napi::Persistent(pixels.As<Napi::Object>())) {}

  void Execute() noexcept override {
    const auto begin = std::chrono::steady_clock::now();
    ToI420();
    if (ApplyBitrate() && EncodeImage()) Collect();
    milliseconds_ = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
  }

 protected:
  Napi::Value Result(Napi::Env env) override {
    Napi::Object result = Napi::Object::New(env);
    result["data"] = Napi::Buffer<uint8_t>::Copy(env, data_.data(), data_.size());
    result["keyframe"] = Napi::Boolean::New(env, keyframe_);
    result["encodeMs"] = Napi::Number::New(env, milliseconds_);
    return result;
  }

 private:
  void ToI420() {
    vpx_image_t* image = state_->image;
    const int width = state_->width;
    const int height = state_->height;
    uint8_t* const* out = image->planes;
    const int* stride = image->stride;
    if (format_ == PixelFormat::kRgb24) {
      // libyuv names formats by word order: RAW is R, G, B in memory.
      libyuv::RAWToI420(pixels_, width * 3, out[0], stride[0], out[1], stride[1], out[2], stride[2], width, height);
      return;
    }
    const int chroma_width = static_cast<int>(state_->ChromaWidth());
    const uint8_t* u = pixels_ + static_cast<std::size_t>(width) * static_cast<std::size_t>(height);
    const uint8_t* v = u + state_->ChromaWidth() * state_->ChromaHeight();
    libyuv::I420Copy(pixels_, width, u, chroma_width, v, chroma_width, out[0], stride[0], out[1], stride[1], out[2], stride[2], width, height);
  }

  bool ApplyBitrate() {
    const unsigned wanted = state_->bitrate_kbps.load();
    if (wanted == state_->config.rc_target_bitrate) return true;
    state_->config.rc_target_bitrate = wanted;
    if (vpx_codec_enc_config_set(&state_->codec, &state_->config) == VPX_CODEC_OK) return true;
    error = state_->Error();
    return false;
  }

  bool EncodeImage() {
    const vpx_enc_frame_flags_t flags = force_keyframe_ ? VPX_EFLAG_FORCE_KF : 0;
    if (vpx_codec_encode(&state_->codec, state_->image, state_->frame++, 1, flags, VPX_DL_REALTIME) == VPX_CODEC_OK) return true;
    error = state_->Error();
    return false;
  }

  void Collect() {
    vpx_codec_iter_t iterator = nullptr;
    while (const vpx_codec_cx_pkt_t* packet = vpx_codec_get_cx_data(&state_->codec, &iterator)) {
      if (packet->kind != VPX_CODEC_CX_FRAME_PKT) continue;
      const auto* bytes = static_cast<const uint8_t*>(packet->data.frame.buf);
      data_.insert(data_.end(), bytes, bytes + packet->data.frame.sz);
      keyframe_ = (packet->data.frame.flags & VPX_FRAME_IS_KEY) != 0;
    }
    if (data_.empty()) error = "vp8 encoder: no frame came out";
  }

  std::shared_ptr<VpxEncoderState> state_;
  const uint8_t* pixels_;
  PixelFormat format_;
  bool force_keyframe_;
  Napi::ObjectReference keep_;
  std::vector<uint8_t> data_;
  bool keyframe_ = false;
  double milliseconds_ = 0;
};

void Configure(Napi::Env env, VpxEncoderState& state, int frames_per_second) {
  vpx_codec_iface_t* vp8 = vpx_codec_vp8_cx();
  vpx_codec_enc_cfg_t& config = state.config;
  if (vpx_codec_enc_config_default(vp8, &config, 0) != VPX_CODEC_OK) throw Napi::Error::New(env, "vp8 encoder: no default configuration");
  config.g_w = static_cast<unsigned>(state.width);
  config.g_h = static_cast<unsigned>(state.height);
  config.g_threads = 1;  // sessions run in parallel; slices of one small picture would only add hand-over
  config.g_timebase = {1, frames_per_second};
  config.g_lag_in_frames = 0;
  config.g_pass = VPX_RC_ONE_PASS;
  config.g_error_resilient = 0;
  config.rc_end_usage = VPX_CBR;
  config.rc_target_bitrate = state.bitrate_kbps.load();
  config.rc_min_quantizer = 2;
  config.rc_max_quantizer = 56;  // 63 turns small pictures to mush; the bitrate floor is what protects the network
  config.rc_undershoot_pct = 100;
  config.rc_overshoot_pct = 15;
  config.rc_buf_initial_sz = 500;
  config.rc_buf_optimal_sz = 600;
  config.rc_buf_sz = 1000;
  config.rc_dropframe_thresh = 0;  // frames are dropped before the encoder, by whoever owns the timeline
  config.rc_resize_allowed = 0;
  config.kf_mode = VPX_KF_DISABLED;  // keyframes come when asked for
  if (vpx_codec_enc_init(&state.codec, vp8, &config, 0) != VPX_CODEC_OK) throw Napi::Error::New(env, state.Error());
  state.open = true;
}

}  // namespace

Napi::Function VpxEncoder::Define(Napi::Env env) {
  return DefineClass(env, "VpxEncoder", {InstanceMethod("encode", &VpxEncoder::Encode), InstanceMethod("setBitrate", &VpxEncoder::SetBitrate), InstanceMethod("close", &VpxEncoder::Close)});
}

VpxEncoder::VpxEncoder(const Napi::CallbackInfo& info)
    : Napi::ObjectWrap<VpxEncoder>(info), state_(std::make_shared<VpxEncoderState>()), strand_(std::make_shared<Strand>(PoolOf(info.Env()))) {
  const Napi::Object options = OptionsArgument(info, 0);
  state_->width = IntOption(options, "width", 2, 16383);
  state_->height = IntOption(options, "height", 2, 16383);
  state_->bitrate_kbps = static_cast<unsigned>(IntOption(options, "bitrate", 1000, 100'000'000)) / 1000;
  Configure(info.Env(), *state_, IntOption(options, "framesPerSecond", 1, 240));
  // Negative: the real-time range, where the speed is kept whatever the deadline.
  vpx_codec_control(&state_->codec, VP8E_SET_CPUUSED, -IntOption(options, "speed", 0, 16, 6));
  vpx_codec_control(&state_->codec, VP8E_SET_STATIC_THRESHOLD, 1);
  vpx_codec_control(&state_->codec, VP8E_SET_NOISE_SENSITIVITY, 0);
  vpx_codec_control(&state_->codec, VP8E_SET_TOKEN_PARTITIONS, 0);
  // A keyframe may take this many per cent of one frame's share of the bitrate: it must not delay the frames behind it.
  vpx_codec_control(&state_->codec, VP8E_SET_MAX_INTRA_BITRATE_PCT, static_cast<unsigned>(IntOption(options, "maxKeyframePercent", 0, 10000, 300)));
  state_->image = vpx_img_alloc(nullptr, VPX_IMG_FMT_I420, state_->config.g_w, state_->config.g_h, 32);
  if (state_->image == nullptr) throw Napi::Error::New(info.Env(), "vp8 encoder: out of memory");
}

const std::shared_ptr<VpxEncoderState>& VpxEncoder::State(Napi::Env env) const {
  if (!state_) throw Napi::Error::New(env, "vp8 encoder is closed");
  return state_;
}

// encode(pixels, { format: 'rgb24' | 'i420', keyframe: boolean })
Napi::Value VpxEncoder::Encode(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  const auto& state = State(env);
  const Napi::Uint8Array pixels = BytesArgument(info, 0);
  const Napi::Object options = OptionsArgument(info, 1);
  const std::string name = options.Get("format").ToString().Utf8Value();
  if (name != "rgb24" && name != "i420") throw Napi::TypeError::New(env, "format must be 'rgb24' or 'i420'");
  const PixelFormat format = name == "rgb24" ? PixelFormat::kRgb24 : PixelFormat::kI420;
  const std::size_t luma = static_cast<std::size_t>(state->width) * static_cast<std::size_t>(state->height);
  const std::size_t needed = format == PixelFormat::kRgb24 ? luma * 3 : luma + 2 * state->ChromaWidth() * state->ChromaHeight();
  if (pixels.ByteLength() < needed) throw Napi::RangeError::New(env, "picture has " + std::to_string(pixels.ByteLength()) + " bytes, " + std::to_string(needed) + " needed");
  return strand_->Post(env, std::make_unique<EncodeJob>(env, state, pixels, format, options.Get("keyframe").ToBoolean().Value()));
}

// setBitrate(bitsPerSecond): in force from the next encode on.
Napi::Value VpxEncoder::SetBitrate(const Napi::CallbackInfo& info) {
  const double bitrate = info.Length() > 0 && info[0].IsNumber() ? info[0].As<Napi::Number>().DoubleValue() : 0;
  if (!(bitrate >= 1000 && bitrate <= 1e8)) throw Napi::TypeError::New(info.Env(), "bitrate must be from 1000 to 100000000 bit/s");
  State(info.Env())->bitrate_kbps = static_cast<unsigned>(bitrate / 1000);
  return info.Env().Undefined();
}

// A call that is running keeps the codec until it has settled.
Napi::Value VpxEncoder::Close(const Napi::CallbackInfo& info) {
  state_.reset();
  return info.Env().Undefined();
}

}  // namespace segue
