{% macro cleaned(column) %}lower(trim({{ column }})){% endmacro %}
