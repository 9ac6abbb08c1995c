#include "opus_encoder.h"

#include <string>

#include "arguments.h"

namespace segue {

namespace {
// RFC 6716: no packet is longer than this.
constexpr std::size_t kMaxPacketBytes = 1275;
}  // namespace

Napi::Function OpusEncoderWrap::Define(Napi::Env env) {
  return DefineClass(env, "OpusEncoder", {InstanceMethod("encode", &OpusEncoderWrap::Encode), InstanceMethod("setBitrate", &OpusEncoderWrap::SetBitrate), InstanceMethod("close", &OpusEncoderWrap::Close)});
}

OpusEncoderWrap::OpusEncoderWrap(const Napi::CallbackInfo& info) : Napi::ObjectWrap<OpusEncoderWrap>(info) {
  const Napi::Object options = OptionsArgument(info, 0);
  const int rate = IntOption(options, "sampleRate", 8000, 48000);
  channels_ = IntOption(options, "channels", 1, 2);
  int status = OPUS_OK;
  // AUDIO, not VOIP: generated sound is engines, rain and music, and no high-pass filter may touch it.
  encoder_.reset(opus_encoder_create(rate, channels_, OPUS_APPLICATION_AUDIO, &status));
  if (status != OPUS_OK) throw Napi::TypeError::New(info.Env(), std::string("opus encoder: ") + opus_strerror(status));
  opus_encoder_ctl(encoder_.get(), OPUS_SET_BITRATE(IntOption(options, "bitrate", 6000, 510000)));
  opus_encoder_ctl(encoder_.get(), OPUS_SET_COMPLEXITY(IntOption(options, "complexity", 0, 10, 5)));
  opus_encoder_ctl(encoder_.get(), OPUS_SET_INBAND_FEC(1));
  opus_encoder_ctl(encoder_.get(), OPUS_SET_PACKET_LOSS_PERC(5));
}

OpusEncoder* OpusEncoderWrap::Encoder(Napi::Env env) const {
  if (!encoder_) throw Napi::Error::New(env, "opus encoder is closed");
  return encoder_.get();
}

// encode(pcm: Int16Array, interleaved): one packet. The length must be a frame of Opus (2.5, 5, 10, 20, 40 or 60 ms).
Napi::Value OpusEncoderWrap::Encode(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  OpusEncoder* encoder = Encoder(env);
  if (info.Length() < 1 || !info[0].IsTypedArray() || info[0].As<Napi::TypedArray>().TypedArrayType() != napi_int16_array) throw Napi::TypeError::New(env, "Int16Array expected");
  const auto pcm = info[0].As<Napi::Int16Array>();
  uint8_t packet[kMaxPacketBytes];
  const int frames = static_cast<int>(pcm.ElementLength()) / channels_;
  const opus_int32 bytes = opus_encode(encoder, pcm.Data(), frames, packet, sizeof packet);
  if (bytes < 0) throw Napi::RangeError::New(env, std::string("opus encoder: ") + opus_strerror(bytes));
  return Napi::Buffer<uint8_t>::Copy(env, packet, static_cast<std::size_t>(bytes));
}

Napi::Value OpusEncoderWrap::SetBitrate(const Napi::CallbackInfo& info) {
  const int bitrate = info.Length() > 0 && info[0].IsNumber() ? info[0].As<Napi::Number>().Int32Value() : 0;
  if (opus_encoder_ctl(Encoder(info.Env()), OPUS_SET_BITRATE(bitrate)) != OPUS_OK || bitrate < 6000) throw Napi::TypeError::New(info.Env(), "bitrate must be from 6000 to 510000 bit/s");
  return info.Env().Undefined();
}

Napi::Value OpusEncoderWrap::Close(const Napi::CallbackInfo& info) {
  encoder_.reset();
  return info.Env().Undefined();
}

}  // namespace segue
