// Checked reading of JavaScript arguments: a wrong type or range is a TypeError that names the option.
#pragma once

#include <napi.h>

#include <string>

namespace segue {

inline Napi::Object OptionsArgument(const Napi::CallbackInfo& info, std::size_t index) {
  if (info.Length() <= index || !info[index].IsObject()) throw Napi::TypeError::New(info.Env(), "options object expected");
  return info[index].As<Napi::Object>();
}

// An integer option within [min, max].
inline int IntOption(const Napi::Object& options, const char* name, int min, int max) {
  const Napi::Value value = options.Get(name);
  const double number = value.IsNumber() ? value.As<Napi::Number>().DoubleValue() : -1e300;
  if (!(number >= min && number <= max) || number != static_cast<int>(number)) {
    throw Napi::TypeError::New(options.Env(), std::string(name) + " must be an integer from " + std::to_string(min) + " to " + std::to_string(max));
  }
  return static_cast<int>(number);
}

inline int IntOption(const Napi::Object& options, const char* name, int min, int max, int fallback) {
  return options.Get(name).IsUndefined() ? fallback : IntOption(options, name, min, max);
}

inline Napi::Uint8Array BytesArgument(const Napi::CallbackInfo& info, std::size_t index) {
  if (info.Length() <= index || !info[index].IsTypedArray() || info[index].As<Napi::TypedArray>().TypedArrayType() != napi_uint8_array) {
    throw Napi::TypeError::New(info.Env(), "Uint8Array expected");
  }
  return info[index].As<Napi::Uint8Array>();
}

}  // namespace segue
