"""Writes a copy of a GGUF file with some keys changed: a model that pools its embeddings in another way, for
example."""
import gguf

KINDS = {int: gguf.GGUFValueType.UINT32, bool: gguf.GGUFValueType.BOOL, str: gguf.GGUFValueType.STRING}


def copy_with(source, target, keys, split_max_tensors=0):
    """keys: {name: value}; integers become uint32. split_max_tensors: the tensors per part; 0 writes one
    file."""
    reader = gguf.GGUFReader(source)
    arch = reader.fields["general.architecture"].contents()
    writer = gguf.GGUFWriter(target, arch, split_max_tensors=split_max_tensors)
    for name, field in reader.fields.items():
        if name.startswith("GGUF.") or name == "general.architecture" or name in keys:
            continue
        kind = field.types[0]
        writer.add_key_value(name, field.contents(), kind,
                             field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None)
    for name, value in keys.items():
        writer.add_key_value(name, value, KINDS[type(value)])
    for tensor in reader.tensors:
        writer.add_tensor(tensor.name, tensor.data, raw_dtype=tensor.tensor_type)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return target
