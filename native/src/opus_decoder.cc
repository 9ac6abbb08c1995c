#include "opus_decoder.h"

#include <algorithm>
#include <string>
#include <vector>

#include "arguments.h"

namespace segue {

Napi::Function OpusDecoderWrap::Define(Napi::Env env) {
  return DefineClass(env, "OpusDecoder", {InstanceMethod("decode", &OpusDecoderWrap::Decode), InstanceMethod("close", &OpusDecoderWrap::Close)});
}

OpusDecoderWrap::OpusDecoderWrap(const Napi::CallbackInfo& info) : Napi::ObjectWrap<OpusDecoderWrap>(info) {
  const Napi::Object options = OptionsArgument(info, 0);
  rate_ = IntOption(options, "sampleRate", 8000, 48000);
  channels_ = IntOption(options, "channels", 1, 2);
  int status = OPUS_OK;
  decoder_.reset(opus_decoder_create(rate_, channels_, &status));
  if (status != OPUS_OK) throw Napi::TypeError::New(info.Env(), std::string("opus decoder: ") + opus_strerror(status));
}

Napi::Value OpusDecoderWrap::Decode(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  if (!decoder_) throw Napi::Error::New(env, "opus decoder is closed");
  const int longest = rate_ / 1000 * 120;  // RFC 6716: at most 120 ms a packet
  std::vector<opus_int16> pcm(static_cast<std::size_t>(longest) * static_cast<std::size_t>(channels_));
  int frames = 0;
  if (info.Length() < 1 || info[0].IsNull() || info[0].IsUndefined()) {
    frames = opus_decode(decoder_.get(), nullptr, 0, pcm.data(), rate_ / 50, 0);
  } else {
    const Napi::Uint8Array packet = BytesArgument(info, 0);
    frames = opus_decode(decoder_.get(), packet.Data(), static_cast<opus_int32>(packet.ByteLength()), pcm.data(), longest, 0);
  }
  if (frames < 0) throw Napi::RangeError::New(env, std::string("opus decoder: ") + opus_strerror(frames));
  const std::size_t samples = static_cast<std::size_t>(frames) * static_cast<std::size_t>(channels_);
  Napi::Int16Array result = Napi::Int16Array::New(env, samples);
  std::copy_n(pcm.data(), samples, result.Data());
  return result;
}

Napi::Value OpusDecoderWrap::Close(const Napi::CallbackInfo& info) {
  decoder_.reset();
  return info.Env().Undefined();
}

}  // namespace segue
