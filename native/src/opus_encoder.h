#pragma once

#include <napi.h>
#include <opus.h>

#include <memory>

namespace segue {

struct OpusEncoderDeleter {
  void operator()(OpusEncoder* encoder) const { opus_encoder_destroy(encoder); }
};

// JavaScript: `new OpusEncoder({ sampleRate, channels, bitrate, complexity? })`.
// Synchronous on purpose: a 20 ms packet costs about 0.1 ms, less than handing it to another thread and back,
// and a packet that is made at once can't be overtaken by a fence.
class OpusEncoderWrap : public Napi::ObjectWrap<OpusEncoderWrap> {
 public:
  static Napi::Function Define(Napi::Env env);
  explicit OpusEncoderWrap(const Napi::CallbackInfo& info);

 private:
  Napi::Value Encode(const Napi::CallbackInfo& info);
  Napi::Value SetBitrate(const Napi::CallbackInfo& info);
  Napi::Value Close(const Napi::CallbackInfo& info);
  OpusEncoder* Encoder(Napi::Env env) const;

  std::unique_ptr<OpusEncoder, OpusEncoderDeleter> encoder_;
  int channels_ = 1;
};

}  // namespace segue
