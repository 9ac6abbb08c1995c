#pragma once

#include <napi.h>

#include <memory>

#include "worker_pool.h"

namespace segue {

struct VpxDecoderState;

// VP8 to RGB24 or I420. JavaScript: `new VpxDecoder()`, `await decode(data, format)`.
class VpxDecoder : public Napi::ObjectWrap<VpxDecoder> {
 public:
  static Napi::Function Define(Napi::Env env);
  explicit VpxDecoder(const Napi::CallbackInfo& info);

 private:
  Napi::Value Decode(const Napi::CallbackInfo& info);
  Napi::Value Close(const Napi::CallbackInfo& info);

  std::shared_ptr<VpxDecoderState> state_;
  std::shared_ptr<Strand> strand_;
};

}  // namespace segue
