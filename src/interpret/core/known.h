// Facts of the room known/ that the tracer speaks of all the time, without the room's name.
#pragma once

#include "known/code_policy.h"
#include "known/dynamic.h"
#include "known/known_types.h"
#include "known/marks.h"
#include "known/names.h"
#include "known/torch_names.h"

namespace stator::interpret {

using known::attrGetterType;
using known::behindTorchDynamosMark;
using known::builtinFunction;
using known::CodePolicy;
using known::codePolicy;
using known::compiledFunctionType;
using known::defaultDictType;
using known::dequeType;
using known::deviceType;
using known::DynamicDemand;
using known::DynamicHistory;
using known::DynamicMode;
using known::enumType;
using known::generatorType;
using known::hasOwnDispatch;
using known::initKnownTypes;
using known::initNames;
using known::isBoundBuiltin;
using known::isDeque;
using known::isDictView;
using known::isDisabled;
using known::isEnumMember;
using known::isGraphModule;
using known::isLayerClass;
using known::isModule;
using known::isNamedTuple;
using known::isOpaqueConstant;
using known::isOverloadedType;
using known::isPlacement;
using known::isPlacementType;
using known::isPlainTensorType;
using known::isPolyfill;
using known::isStaticKey;
using known::isStructSequence;
using known::isTypingObject;
using known::itemGetterType;
using known::itertoolsType;
using known::lruCacheType;
using known::mappingProxyType;
using known::Mark;
using known::markOf;
using known::methodCallerType;
using known::moduleType;
using known::Names;
using known::names;
using known::operatorFunction;
using known::parameterType;
using known::partialType;
using known::reasonOfDisabling;
using known::sizeType;
using known::sourceKey;
using known::tensorType;
using known::torchObject;

}  // namespace stator::interpret
