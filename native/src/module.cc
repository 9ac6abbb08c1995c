// Codecs for Node: VP8 (libvpx), Opus (libopus), colour conversion (libyuv). Types: src/media/native.ts.
#include <napi.h>
#include <opus.h>
#include <vpx/vpx_codec.h>

#include <algorithm>
#include <thread>

#include "addon_data.h"
#include "opus_decoder.h"
#include "opus_encoder.h"
#include "thread_priority.h"
#include "vpx_decoder.h"
#include "vpx_encoder.h"

namespace segue {

// Enough to encode a few sessions at once, few enough to leave cores to the model.
unsigned EncoderThreads() { return std::clamp(std::thread::hardware_concurrency() / 2, 1U, 4U); }

Napi::Object Init(Napi::Env env, Napi::Object exports) {
  env.SetInstanceData(new AddonData(env, EncoderThreads()));
  exports["VpxEncoder"] = VpxEncoder::Define(env);
  exports["VpxDecoder"] = VpxDecoder::Define(env);
  exports["OpusEncoder"] = OpusEncoderWrap::Define(env);
  exports["OpusDecoder"] = OpusDecoderWrap::Define(env);
  exports["raiseThreadPriority"] = Napi::Function::New(env, [](const Napi::CallbackInfo& info) -> Napi::Value { return Napi::Boolean::New(info.Env(), RaiseThreadPriority()); });
  exports["vpxVersion"] = Napi::String::New(env, vpx_codec_version_str());
  exports["opusVersion"] = Napi::String::New(env, opus_get_version_string());
  return exports;
}

}  // namespace segue

static Napi::Object InitModule(Napi::Env env, Napi::Object exports) { return segue::Init(env, exports); }

NODE_API_MODULE(segue_media, InitModule)
