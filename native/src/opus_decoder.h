#pragma once

#include <napi.h>
#include <opus.h>

#include <memory>

namespace segue {

struct OpusDecoderDeleter {
  void operator()(OpusDecoder* decoder) const { opus_decoder_destroy(decoder); }
};

// JavaScript: `new OpusDecoder({ sampleRate, channels })`; `decode(packet)` or, for a lost packet, `decode(null)`.
class OpusDecoderWrap : public Napi::ObjectWrap<OpusDecoderWrap> {
 public:
  static Napi::Function Define(Napi::Env env);
  explicit OpusDecoderWrap(const Napi::CallbackInfo& info);

 private:
  Napi::Value Decode(const Napi::CallbackInfo& info);
  Napi::Value Close(const Napi::CallbackInfo& info);

  std::unique_ptr<OpusDecoder, OpusDecoderDeleter> decoder_;
  int rate_ = 48000;
  int channels_ = 1;
};

}  // namespace segue
