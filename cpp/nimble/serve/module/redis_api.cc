#include "nimble/serve/module/redis_api.h"

#include <string>

namespace nimble {

RedisApi redis_api;

const char* load_redis_api(RedisModuleCtx* context) {
  // A context begins with the pointer to the function that finds the others.
  using Find = int (*)(const char* name, void* function);
  const auto find = *reinterpret_cast<const Find*>(context);
  struct Function {
    const char* name;
    void* place;
    bool is_needed;
  };
  RedisApi& api = redis_api;
  const Function functions[] = {
      {"SetModuleAttribs", &api.SetModuleAttribs, true},
      {"IsModuleNameBusy", &api.IsModuleNameBusy, true},
      {"CreateCommand", &api.CreateCommand, true},
      {"Log", &api.Log, true},
      {"Free", &api.Free, true},
      {"ReplyWithArray", &api.ReplyWithArray, true},
      {"ReplyWithStringBuffer", &api.ReplyWithStringBuffer, true},
      {"ReplyWithSimpleString", &api.ReplyWithSimpleString, true},
      {"ReplyWithNull", &api.ReplyWithNull, true},
      {"ReplyWithError", &api.ReplyWithError, true},
      {"ReplyWithLongLong", &api.ReplyWithLongLong, true},
      {"StringPtrLen", &api.StringPtrLen, true},
      {"CreateString", &api.CreateString, true},
      {"RetainString", &api.RetainString, true},
      {"Call", &api.Call, true},
      {"CallReplyInteger", &api.CallReplyInteger, true},
      {"FreeCallReply", &api.FreeCallReply, true},
      {"RegisterCommandFilter", &api.RegisterCommandFilter, true},
      {"CommandFilterArgsCount", &api.CommandFilterArgsCount, true},
      {"CommandFilterArgGet", &api.CommandFilterArgGet, true},
      {"CommandFilterArgReplace", &api.CommandFilterArgReplace, true},
      {"GetCommandKeys", &api.GetCommandKeys, true},
      {"GetContextFlags", &api.GetContextFlags, true},
      {"GetClientId", &api.GetClientId, true},
      {"GetClientInfoById", &api.GetClientInfoById, true},
      {"BlockClient", &api.BlockClient, true},
      {"UnblockClient", &api.UnblockClient, true},
      {"GetBlockedClientPrivateData", &api.GetBlockedClientPrivateData, true},
      {"GetThreadSafeContext", &api.GetThreadSafeContext, true},
      {"FreeThreadSafeContext", &api.FreeThreadSafeContext, true},
      {"CreateTimer", &api.CreateTimer, true},
      {"SubscribeToServerEvent", &api.SubscribeToServerEvent, true},
      {"RegisterInfoFunc", &api.RegisterInfoFunc, true},
      {"InfoAddSection", &api.InfoAddSection, true},
      {"InfoAddFieldCString", &api.InfoAddFieldCString, true},
      {"InfoAddFieldULongLong", &api.InfoAddFieldULongLong, true},
      {"ReplyWithMap", &api.ReplyWithMap, false},
      {"GetCommand", &api.GetCommand, false},
      {"SetCommandInfo", &api.SetCommandInfo, false},
      {"SetCommandACLCategories", &api.SetCommandACLCategories, false},
  };
  for (const Function& f : functions) {
    const std::string name = std::string("RedisModule_") + f.name;
    if (find(name.c_str(), f.place) != kRedisOk && f.is_needed) return f.name;
  }
  return nullptr;
}

}  // namespace nimble
