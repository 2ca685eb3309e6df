"""The messages of a SavedModel: what its text form needs to be told of each field.

Fields: the .proto files in tensorflow/core/framework and tensorflow/core/protobuf. Left out is
what no reader here asks for: lists of ops, debug information.
"""

from __future__ import annotations

from typing import Final

# Message: name=number:kind, with * where a number is repeated. bytes stands for strings, too.
MESSAGES: Final = {
    "SavedModel": "saved_model_schema_version=1:int64 meta_graphs=2:MetaGraphDef",
    "MetaGraphDef": "meta_info_def=1:MetaInfoDef graph_def=2:GraphDef "
    "collection_def=4:CollectionDefEntry signature_def=5:SignatureDefEntry "
    "asset_file_def=6:AssetFileDef object_graph_def=7:SavedObjectGraph",
    "MetaInfoDef": "meta_graph_version=1:bytes tags=4:bytes tensorflow_version=5:bytes "
    "tensorflow_git_version=6:bytes",
    "CollectionDefEntry": "key=1:bytes value=2:CollectionDef",
    "CollectionDef": "node_list=1:NodeList bytes_list=2:BytesList any_list=5:AnyList",
    "NodeList": "value=1:bytes",
    "BytesList": "value=1:bytes",
    "AnyList": "value=1:Any",
    "Any": "type_url=1:bytes value=2:bytes",
    "SignatureDefEntry": "key=1:bytes value=2:SignatureDef",
    "SignatureDef": "inputs=1:TensorInfoEntry outputs=2:TensorInfoEntry method_name=3:bytes",
    "TensorInfoEntry": "key=1:bytes value=2:TensorInfo",
    "TensorInfo": "name=1:bytes dtype=2:DataType tensor_shape=3:TensorShapeProto",
    "AssetFileDef": "tensor_info=1:TensorInfo filename=2:bytes",
    "GraphDef": "node=1:NodeDef library=2:FunctionDefLibrary version=3:int32 versions=4:VersionDef",
    "VersionDef": "producer=1:int32 min_consumer=2:int32 bad_consumers=3:int32*",
    "FunctionDefLibrary": "function=1:FunctionDef",
    "FunctionDef": "signature=1:OpDef node_def=3:NodeDef ret=4:StringEntry attr=5:AttrEntry "
    "control_ret=6:StringEntry",
    "StringEntry": "key=1:bytes value=2:bytes",
    "OpDef": "name=1:bytes input_arg=2:ArgDef output_arg=3:ArgDef is_stateful=17:bool "
    "control_output=20:bytes",
    "ArgDef": "name=1:bytes type=3:DataType type_attr=4:bytes number_attr=5:bytes "
    "type_list_attr=6:bytes is_ref=16:bool",
    "NodeDef": "name=1:bytes op=2:bytes input=3:bytes device=4:bytes attr=5:AttrEntry",
    "AttrEntry": "key=1:bytes value=2:AttrValue",
    "AttrValue": "list=1:ListValue s=2:bytes i=3:int64 f=4:float b=5:bool type=6:DataType "
    "shape=7:TensorShapeProto tensor=8:TensorProto placeholder=9:bytes func=10:NameAttrList",
    "ListValue": "s=2:bytes i=3:int64* f=4:float* b=5:bool* type=6:DataType* "
    "shape=7:TensorShapeProto tensor=8:TensorProto func=9:NameAttrList",
    "NameAttrList": "name=1:bytes attr=2:AttrEntry",
    "TensorShapeProto": "dim=2:Dim unknown_rank=3:bool",
    "Dim": "size=1:int64 name=2:bytes",
    "TensorProto": "dtype=1:DataType tensor_shape=2:TensorShapeProto version_number=3:int32 "
    "tensor_content=4:bytes float_val=5:float* double_val=6:double* int_val=7:int32* "
    "string_val=8:bytes scomplex_val=9:float* int64_val=10:int64* bool_val=11:bool* "
    "dcomplex_val=12:double* half_val=13:int32* uint32_val=16:uint32* uint64_val=17:uint64* "
    "float8_val=18:bytes",
    "SavedObjectGraph": "nodes=1:SavedObject concrete_functions=2:ConcreteFunctionEntry",
    "ConcreteFunctionEntry": "key=1:bytes value=2:SavedConcreteFunction",
    "SavedConcreteFunction": "bound_inputs=2:int32*",
    "SavedObject": "children=1:ObjectReference user_object=4:SavedUserObject asset=5:SavedAsset "
    "function=6:SavedFunction variable=7:SavedVariable bare_concrete_function=8:SavedBareFunction "
    "constant=9:SavedConstant resource=10:SavedResource saveable_objects=11:SaveableObjectEntry "
    "captured_tensor=12:CapturedTensor registered_name=13:bytes dependencies=15:ObjectReference "
    "registered_saver=16:bytes",
    "ObjectReference": "node_id=1:int32 local_name=2:bytes",
    "SavedUserObject": "identifier=1:bytes version=2:VersionDef metadata=3:bytes",
    "SavedAsset": "asset_file_def_index=1:int32",
    "SavedFunction": "concrete_functions=1:bytes",
    "SavedVariable": "dtype=1:DataType shape=2:TensorShapeProto trainable=3:bool name=6:bytes "
    "device=7:bytes experimental_distributed_variable_components=8:SavedVariable",
    "SavedBareFunction": "concrete_function_name=1:bytes argument_keywords=2:bytes "
    "allowed_positional_arguments=3:int64",
    "SavedConstant": "operation=1:bytes",
    "SavedResource": "device=1:bytes",
    "SaveableObjectEntry": "key=1:bytes value=2:SaveableObject",
    "SaveableObject": "save_function=2:int32 restore_function=3:int32",
    "CapturedTensor": "name=1:bytes concrete_function=2:bytes",
}
IN_ANY: Final = {b"tensorflow.AssetFileDef": "AssetFileDef"}

# tensorflow/core/framework/types.proto, from 0 on; a reference to a type is 100 more.
TYPE_NAMES: Final = (
    "INVALID FLOAT DOUBLE INT32 UINT8 INT16 INT8 STRING COMPLEX64 INT64 BOOL QINT8 QUINT8 QINT32 "
    "BFLOAT16 QINT16 QUINT16 UINT16 COMPLEX128 HALF RESOURCE VARIANT UINT32 UINT64 FLOAT8_E5M2 "
    "FLOAT8_E4M3FN FLOAT8_E4M3FNUZ FLOAT8_E4M3B11FNUZ FLOAT8_E5M2FNUZ INT4 UINT4 INT2 UINT2 "
    "FLOAT4_E2M1FN"
)
DATA_TYPES: Final = {
    f"DT_{name}{suffix}".encode(): number + more
    for number, name in enumerate(TYPE_NAMES.split())
    for suffix, more in (("", 0), ("_REF", 100))
}
