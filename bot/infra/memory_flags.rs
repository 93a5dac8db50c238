//! Flags and environment that make a framework take GPU memory up front: a plateau that they cause is a setting.

use super::walk::{self, At};

/// Command-line flags, as the frameworks' documentation spells them: vLLM, SGLang, Text Generation Inference.
const FLAGS: &[&str] = &[
    "--gpu-memory-utilization",
    "--gpu_memory_utilization",
    "--mem-fraction-static",
    "--cuda-memory-fraction",
];

/// Environment variables: JAX, TensorFlow, Text Generation Inference.
const VARIABLES: &[&str] = &[
    "XLA_PYTHON_CLIENT_MEM_FRACTION",
    "XLA_CLIENT_MEM_FRACTION",
    "XLA_PYTHON_CLIENT_PREALLOCATE",
    "XLA_PYTHON_CLIENT_ALLOCATOR",
    "TF_FORCE_GPU_ALLOW_GROWTH",
    "CUDA_MEMORY_FRACTION",
];

/// The flags of some containers as written, each once, in the order of the text.
pub(super) fn memory_flags(containers: &[At<'_>]) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut add = |flag: String| {
        if !found.contains(&flag) {
            found.push(flag);
        }
    };
    for container in containers {
        for key in ["command", "args"] {
            let texts: Vec<&str> = container
                .get(key)
                .into_iter()
                .flat_map(|list| list.items())
                .filter_map(|at| at.node.as_str())
                .collect();
            in_command(&texts).into_iter().for_each(&mut add);
        }
        for variable in container.all("env[]") {
            let name = walk::text(variable.node, "name").unwrap_or_default();
            variable_of(name, walk::text(variable.node, "value")).into_iter().for_each(&mut add);
        }
    }
    found
}

/// The flags of one command line, each part as written.
pub(super) fn in_command(texts: &[&str]) -> Vec<String> {
    // A shell gets its command line as one text.
    let words: Vec<&str> = texts.iter().flat_map(|text| text.split_whitespace()).collect();
    let mut found = Vec::new();
    for (at, word) in words.iter().enumerate() {
        let word = word.trim_matches(['"', '\'', '\\', ';']);
        let Some(flag) = FLAGS.iter().find(|flag| {
            word.strip_prefix(**flag).is_some_and(|rest| rest.is_empty() || rest.starts_with('='))
        }) else {
            continue;
        };
        if word == *flag {
            let value = words.get(at + 1).map(|value| value.trim_matches(['"', '\'', '\\', ';']));
            found.push(value.map_or_else(|| word.to_owned(), |value| format!("{word} {value}")));
        } else {
            found.push(word.to_owned());
        }
    }
    found
}

/// A variable of the environment as `NAME=value`, if it is one of those.
pub(super) fn variable_of(name: &str, value: Option<&str>) -> Option<String> {
    VARIABLES
        .contains(&name)
        .then(|| value.map_or_else(|| name.to_owned(), |value| format!("{name}={value}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(container: &str, expected: &[&str]) {
        let stream = slicewright_yaml::read(container).unwrap();
        let at = At::new(stream.document(0).unwrap(), Vec::new());
        assert_eq!(memory_flags(&[at]), expected);
    }

    #[test]
    fn flags_are_found_with_and_without_an_equals_sign() {
        check("args: [--model, x, --gpu-memory-utilization=0.9]", &["--gpu-memory-utilization=0.9"]);
        check("args: ['--mem-fraction-static', '0.85']", &["--mem-fraction-static 0.85"]);
        check("args: ['--gpu-memory-utilization-check']", &[]);
    }

    #[test]
    fn flags_are_found_in_a_shell_line() {
        check(
            "command: [sh, -c]\nargs:\n  - |\n    exec vllm serve x \\\n      --gpu-memory-utilization 0.92\n",
            &["--gpu-memory-utilization 0.92"],
        );
    }

    #[test]
    fn environment_counts_too() {
        check(
            "env:\n- {name: XLA_PYTHON_CLIENT_MEM_FRACTION, value: '.8'}\n- {name: HOME, value: /}\n- {name: TF_FORCE_GPU_ALLOW_GROWTH, valueFrom: {}}\n",
            &["XLA_PYTHON_CLIENT_MEM_FRACTION=.8", "TF_FORCE_GPU_ALLOW_GROWTH"],
        );
    }
}
