#pragma once

#include <napi.h>

#include <memory>

#include "worker_pool.h"

namespace segue {

struct VpxEncoderState;

// VP8, one pass, constant bitrate, no frame held back and none dropped.
// JavaScript: `new VpxEncoder({ width, height, framesPerSecond, bitrate, speed?, maxKeyframePercent? })`.
class VpxEncoder : public Napi::ObjectWrap<VpxEncoder> {
 public:
  static Napi::Function Define(Napi::Env env);
  explicit VpxEncoder(const Napi::CallbackInfo& info);

 private:
  Napi::Value Encode(const Napi::CallbackInfo& info);
  Napi::Value SetBitrate(const Napi::CallbackInfo& info);
  Napi::Value Close(const Napi::CallbackInfo& info);
  const std::shared_ptr<VpxEncoderState>& State(Napi::Env env) const;

  std::shared_ptr<VpxEncoderState> state_;
  std::shared_ptr<Strand> strand_;
};

}  // namespace segue
