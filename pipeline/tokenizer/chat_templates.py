"""Chat templates by name: the Jinja text that an exported Hugging Face directory carries.

Each writes what `pipeline.compat` encodes, so that `apply_chat_template` of transformers returns the same ids. The
`{% generation %}` marks say what the assistant wrote, for `return_assistant_tokens_mask`.
"""

from pipeline.tokenizer.model import ChatTemplate

_LLAMA3 = (
    "{{ '<|begin_of_text|>' }}{% for message in messages %}"
    "{{ '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n' }}"
    "{% if message['role'] == 'assistant' %}"
    "{% generation %}{{ message['content'] | trim }}{{ '<|eot_id|>' }}{% endgeneration %}"
    "{% else %}{{ message['content'] | trim }}{{ '<|eot_id|>' }}{% endif %}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{% endif %}"
)
_CHATML = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' }}"
    "{% if message['role'] == 'assistant' %}"
    "{% generation %}{{ message['content'] + '<|im_end|>' }}{% endgeneration %}"
    "{% else %}{{ message['content'] + '<|im_end|>' }}{% endif %}{{ '\\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)

CHAT_TEMPLATES = {"llama3": ChatTemplate(_LLAMA3), "chatml": ChatTemplate(_CHATML)}
